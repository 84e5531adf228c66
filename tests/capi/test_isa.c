/* The instruction-set level: the option, the environment variable, what is in force. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

static const size_t NUL = EMBER_NUL_TERMINATED;

/* Loads the fixture with the limit `isa`, "" for none. */
static ember_model *load_at(const char *isa)
{
    ember_model_options *o = NULL;
    ember_model *model = NULL;
    OK(ember_model_options_new(&o, E));
    OK(ember_model_options_set_isa(o, isa, NUL, E));
    OK(ember_model_load(FIXTURE, NUL, o, &model, E));
    ember_model_options_free(o);
    return model;
}

static void the_option(void)
{
    ember_model *best = load_at(""), *scalar = load_at("scalar");
    const char *level = ember_model_isa(best);
    CHECK(level != NULL && strstr(ember_build_info(), level) != NULL);
    CHECK(level == ember_model_isa(best));
    CHECK(strcmp(ember_model_isa(scalar), "scalar") == 0);
    CHECK(ember_model_isa(NULL) == NULL);

    ember_model *same = load_at(level);
    CHECK(ember_model_isa(same) == level);
    ember_model_release(same);

    const uint32_t token = 5;
    const float *a = NULL, *b = NULL;
    ember_context *at_best = new_context(best, 0, 1), *at_scalar = new_context(scalar, 0, 1);
    OK(ember_context_decode(at_best, &token, NULL, NULL, NULL, 1, E));
    OK(ember_context_decode(at_scalar, &token, NULL, NULL, NULL, 1, E));
    OK(ember_context_logits(at_best, 0, &a, E));
    OK(ember_context_logits(at_scalar, 0, &b, E));
    CHECK(a != NULL && b != NULL && a[7] - b[7] < 1e-3f && b[7] - a[7] < 1e-3f);
    ember_context_free(at_best);
    ember_context_free(at_scalar);
    ember_model_release(best);
    ember_model_release(scalar);
}

static void the_option_refuses_nonsense(void)
{
    ember_model_options *o = NULL;
    ember_model *model = NULL;
    OK(ember_model_options_new(&o, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "isa is \"z80\"", ember_model_options_set_isa(o, "z80", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "scalar", ember_model_options_set_isa(o, "Scalar", NUL, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "isa", ember_model_options_set_isa(o, NULL, NUL, E));
    FAILS(EMBER_E_UTF8, "isa", ember_model_options_set_isa(o, "\xff", 1, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "options", ember_model_options_set_isa(NULL, "scalar", NUL, E));
    OK(ember_model_options_set_isa(o, "scalar or so", 6, E));
    OK(ember_model_load(FIXTURE, NUL, o, &model, E));
    CHECK(strcmp(ember_model_isa(model), "scalar") == 0);
    ember_model_options_free(o);
    ember_model_release(model);
}

static void the_environment_lowers_every_model(void)
{
    ember_model *model = NULL;
    setenv("EMBER_ISA", "scalar", 1);
    model = load_at("");
    CHECK(strcmp(ember_model_isa(model), "scalar") == 0);
    ember_model_release(model);

    setenv("EMBER_ISA", "z80", 1);
    model = NULL;
    FAILS(EMBER_E_INVALID_ARGUMENT, "EMBER_ISA is \"z80\"", ember_model_load(FIXTURE, NUL, NULL, &model, E));
    FAILS(EMBER_E_INVALID_ARGUMENT, "gpt2-tied.gguf", ember_model_load(FIXTURE, NUL, NULL, &model, E));
    CHECK(model == NULL);

    setenv("EMBER_ISA", "", 1);
    model = load_at("");
    unsetenv("EMBER_ISA");
    ember_model *best = load_at("");
    CHECK(ember_model_isa(model) == ember_model_isa(best));
    ember_model_release(model);
    ember_model_release(best);
}

int main(void)
{
    the_option();
    the_option_refuses_nonsense();
    the_environment_lowers_every_model();
    return finish("isa");
}
