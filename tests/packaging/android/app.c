#include "ember.h"

int app_loads(const char *path)
{
    ember_model *model = 0;
    ember_status status = ember_model_load(path, EMBER_NUL_TERMINATED, 0, &model, 0);
    ember_model_release(model);
    return status == EMBER_OK;
}
