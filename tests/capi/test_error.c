/* Errors and the names of statuses. */
#include "check.h"

static void a_failure_gives_an_error_that_tells_its_story(void)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    CHECK(ember_model_load("no such file", EMBER_NUL_TERMINATED, NULL, &model, &err) == EMBER_E_IO);
    CHECK(model == NULL);
    CHECK(ember_error_status(err) == EMBER_E_IO);
    const char *sentence = ember_error_message(err);
    CHECK(strncmp(sentence, "no such file: ", 14) == 0);
    CHECK(sentence == ember_error_message(err));
    ember_error_free(err);
}

static void success_overwrites_the_error_with_null(void)
{
    ember_error *err = POISON;
    ember_model_options *options = NULL;
    CHECK(ember_model_options_new(&options, &err) == EMBER_OK);
    CHECK(err == NULL);
    ember_model_options_free(options);
}

static void an_error_outlives_what_it_is_about(void)
{
    ember_error *err = NULL;
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(1, &sampler, E));
    CHECK(ember_sampler_add_temperature(sampler, -1.0f, &err) == EMBER_E_INVALID_ARGUMENT);
    ember_sampler_free(sampler);
    CHECK(strstr(ember_error_message(err), "temperature") != NULL);
    ember_error_free(err);
}

static void null_is_no_error(void)
{
    CHECK(ember_error_status(NULL) == EMBER_OK);
    CHECK(strcmp(ember_error_message(NULL), "") == 0);
    ember_error_free(NULL);
}

static void another_handle_is_not_an_error(void)
{
    ember_sampler *sampler = NULL;
    OK(ember_sampler_new(1, &sampler, E));
    const ember_error *foreign = (const ember_error *)(const void *)sampler;
    CHECK(strcmp(ember_error_message(foreign), "") == 0);
    CHECK(ember_error_status(foreign) == EMBER_E_INVALID_ARGUMENT);
    ember_error_free((ember_error *)(void *)sampler);
    OK(ember_sampler_add_greedy(sampler, E));
    ember_sampler_free(sampler);
}

static void every_status_has_a_name_and_no_other_number(void)
{
    CHECK(strcmp(ember_status_name(EMBER_OK), "EMBER_OK") == 0);
    CHECK(strcmp(ember_status_name(EMBER_E_BUSY), "EMBER_E_BUSY") == 0);
    CHECK(strcmp(ember_status_name(EMBER_E_INTERNAL), "EMBER_E_INTERNAL") == 0);
    for (int32_t a = EMBER_OK; a <= EMBER_E_QUEUE_FULL; a++) {
        CHECK(strncmp(ember_status_name(a), "EMBER_", 6) == 0);
        for (int32_t b = EMBER_OK; b < a; b++)
            CHECK(strcmp(ember_status_name(a), ember_status_name(b)) != 0);
    }
    const int32_t others[] = {-1, 14, 1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(strcmp(ember_status_name(others[i]), "unknown status") == 0);
}

int main(void)
{
    a_failure_gives_an_error_that_tells_its_story();
    success_overwrites_the_error_with_null();
    an_error_outlives_what_it_is_about();
    null_is_no_error();
    another_handle_is_not_an_error();
    every_status_has_a_name_and_no_other_number();
    return finish("error");
}
