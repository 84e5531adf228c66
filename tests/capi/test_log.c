/* The log: silent until a callback is set. */
#include "check.h"

/* The lines a callback received. */
struct lines {
    int count;
    int32_t level;
    char last[512];
};

static void keep(int32_t level, const char *text, size_t len, void *user_data)
{
    struct lines *l = user_data;
    CHECK(level >= EMBER_LOG_ERROR && level <= EMBER_LOG_DEBUG);
    CHECK(len > 0 && memchr(text, '\n', len) == NULL);
    l->count++;
    l->level = level;
    snprintf(l->last, sizeof l->last, "%.*s", (int)len, text);
}

static void load_once(void)
{
    ember_model_release(load_model(FIXTURE));
}

static void lines_arrive_up_to_the_level(void)
{
    struct lines l = {.count = 0};
    OK(ember_log_set(keep, &l, EMBER_LOG_INFO, E));
    load_once();
    CHECK(l.count == 1 && l.level == EMBER_LOG_INFO && strstr(l.last, FIXTURE) != NULL);
    OK(ember_log_set(keep, &l, EMBER_LOG_WARN, E));
    load_once();
    CHECK(l.count == 1);
    CHECK(ember_log_set(keep, &l, EMBER_LOG_DEBUG, NULL) == EMBER_OK);
    load_once();
    CHECK(l.count >= 2);
    const int before = l.count;
    OK(ember_log_set(NULL, NULL, EMBER_LOG_DEBUG, E));
    load_once();
    CHECK(l.count == before);
}

static void nonsense_is_refused_and_changes_nothing(void)
{
    struct lines l = {.count = 0};
    OK(ember_log_set(keep, &l, EMBER_LOG_INFO, E));
    const int32_t bad[] = {0, 5, -1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(EMBER_E_INVALID_ARGUMENT, "max_level", ember_log_set(keep, NULL, bad[i], E));
    load_once();
    CHECK(l.count == 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        OK(ember_log_set(NULL, NULL, bad[i], E)); /* silence needs no level */
    load_once();
    CHECK(l.count == 1);
}

static void replace(int32_t level, const char *text, size_t len, void *user_data)
{
    (void)level, (void)text, (void)len;
    OK(ember_log_set(keep, user_data, EMBER_LOG_INFO, E));
}

static void the_callback_may_set_another(void)
{
    struct lines l = {.count = 0};
    OK(ember_log_set(replace, &l, EMBER_LOG_INFO, E));
    load_once();
    CHECK(l.count == 0);
    load_once();
    CHECK(l.count == 1);
    OK(ember_log_set(NULL, NULL, EMBER_LOG_INFO, E));
}

static void load_again(int32_t level, const char *text, size_t len, void *user_data)
{
    keep(level, text, len, user_data);
    load_once();
}

static void a_callback_that_logs_is_not_called_without_end(void)
{
    struct lines l = {.count = 0};
    OK(ember_log_set(load_again, &l, EMBER_LOG_INFO, E));
    load_once();
    CHECK(l.count == 1);
    load_once();
    CHECK(l.count == 2);
    OK(ember_log_set(NULL, NULL, EMBER_LOG_INFO, E));
}

int main(void)
{
    load_once();
    lines_arrive_up_to_the_level();
    nonsense_is_refused_and_changes_nothing();
    the_callback_may_set_another();
    a_callback_that_logs_is_not_called_without_end();
    return finish("log");
}
