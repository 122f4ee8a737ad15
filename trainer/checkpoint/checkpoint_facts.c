/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/checkpoint_facts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"

struct feature_input_options checkpoint_features(const struct checkpoint_facts *facts,
                                                 const char *called)
{
    return (struct feature_input_options){.called = called,
                                          .features = facts->model.shape.features,
                                          .names = &facts->names,
                                          .norm = &facts->norm,
                                          .scale = facts->feature_scale};
}

enum error checkpoint_check_recipe(const struct feature_recipe *recipe, const char *called,
                                   const struct store_info *info)
{
    static const struct recipe_request none = {.missing = MISSING_BAD};
    const struct feature_recipe *other = info->recipe;
    char theirs[RECIPE_REQUEST_BYTES], ours[RECIPE_REQUEST_BYTES];
    if (!other || (recipe && feature_recipe_is_same(recipe, other)))
        return OK;
    bool alike = recipe && recipe_request_is_same(&recipe->request, &other->request);
    return error_set(
        ERROR_CONFLICT,
        "%s was trained with %s; the features of %s were made with %s%s. A table as it "
        "was before that becomes what the model takes by itself",
        called, recipe_request_text(recipe ? &recipe->request : &none, theirs), info->uri,
        recipe_request_text(&other->request, ours), alike ? ", and came to other values" : "");
}

const char *checkpoint_hidden_text(const struct model_shape *shape,
                                   char out[CHECKPOINT_HIDDEN_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < shape->hidden_count; i++)
        used += (size_t)snprintf(out + used, CHECKPOINT_HIDDEN_BYTES - used, "%s%zu", i ? "," : "",
                                 shape->hidden[i]);
    return out;
}

/* Adds an entry's key and returns its buffer; checkpoint_facts_print() sets the value at the
 * end. */
static struct buffer *add(struct checkpoint_metadata *metadata, const char *key)
{
    struct buffer *text = &metadata->texts[metadata->count];
    *text = (struct buffer)BUFFER_INIT(SAFETENSORS_HEADER_LIMIT);
    metadata->pairs[metadata->count++].key = key;
    return text;
}

static enum error add_text(struct checkpoint_metadata *metadata, const char *key, const char *value)
{
    return buffer_add_text(add(metadata, key), value);
}

static enum error add_count(struct checkpoint_metadata *metadata, const char *key, uint64_t value)
{
    return buffer_print(add(metadata, key), "%" PRIu64, value);
}

static enum error add_float(struct checkpoint_metadata *metadata, const char *key, float value)
{
    char text[TEXT_REAL_BYTES];
    return add_text(metadata, key, text_of_float(value, text));
}

/* Only a normalized regression has them. */
static enum error add_targets(struct checkpoint_metadata *metadata,
                              const struct model_options *model)
{
    if (model->target_deviation == 0)
        return OK;
    enum error error = add_float(metadata, "target_mean", model->target_mean);
    return error ? error : add_float(metadata, "target_deviation", model->target_deviation);
}

/* Those that differ from their defaults. The learning rate is always written. */
static enum error add_hyperparameters(struct checkpoint_metadata *metadata,
                                      const struct model_options *model)
{
    char text[HYPERPARAMETER_BYTES];
    enum error error = OK;
    for (size_t i = 0; i < HYPERPARAMETERS && !error; i++) {
        if (!hyperparameter_is_default(i, model))
            error = add_text(metadata, hyperparameter_name(i), hyperparameter_text(i, model, text));
    }
    return error;
}

static enum error add_classes(struct checkpoint_metadata *metadata, const struct classes *classes)
{
    struct buffer *text = add(metadata, "classes");
    return classes ? classes_print(classes, text) : buffer_add_text(text, "[]");
}

static enum error add_names(struct checkpoint_metadata *metadata,
                            const struct checkpoint_facts *facts)
{
    return facts->names.count > 0
               ? feature_names_print(&facts->names, add(metadata, "feature_names"))
               : OK;
}

static enum error add_recipe(struct checkpoint_metadata *metadata,
                             const struct checkpoint_facts *facts)
{
    return facts->recipe ? feature_recipe_print(facts->recipe, add(metadata, "feature_recipe"))
                         : OK;
}

enum error checkpoint_facts_print(const struct checkpoint_facts *facts,
                                  struct checkpoint_metadata *metadata)
{
    const struct model_options *model = &facts->model;
    metadata->count = 0;
    char hidden[CHECKPOINT_HIDDEN_BYTES];
    enum error error = add_text(metadata, "format", CHECKPOINT_FORMAT);
    if (!error)
        error = add_text(metadata, "model", model_kind_name(model->shape.kind));
    if (!error)
        error = add_count(metadata, "features", model->shape.features);
    if (!error)
        error = add_text(metadata, "hidden_units", checkpoint_hidden_text(&model->shape, hidden));
    if (!error)
        error = add_count(metadata, "outputs", model->shape.outputs);
    if (!error)
        error = add_text(metadata, "loss", loss_name(model->loss));
    if (!error)
        error = add_text(metadata, "optimizer", optimizer_name(&model->optimizer));
    if (!error)
        error = add_float(metadata, "learning_rate", model->optimizer.learning_rate);
    if (!error)
        error = add_hyperparameters(metadata, model);
    if (!error)
        error = add_count(metadata, "seed", model->seed);
    if (!error)
        error = add_targets(metadata, model);
    if (!error)
        error = add_float(metadata, "feature_scale", facts->feature_scale);
    if (!error)
        error = add_classes(metadata, facts->classes);
    if (!error)
        error = add_names(metadata, facts);
    if (!error)
        error = add_recipe(metadata, facts);
    if (!error)
        error = stream_position_print(&facts->position, &facts->done, add(metadata, "sampler"));
    if (error)
        return error;
    for (size_t i = 0; i < metadata->count; i++)
        metadata->pairs[i].value = metadata->texts[i].data ? metadata->texts[i].data : "";
    return OK;
}

void checkpoint_metadata_release(struct checkpoint_metadata *metadata)
{
    for (size_t i = 0; i < metadata->count; i++)
        buffer_release(&metadata->texts[i]);
    metadata->count = 0;
}

static enum error get(const struct safetensors *file, const char *key, const char **ret_text)
{
    const char *text = safetensors_metadata(file, key);
    if (!text)
        return error_set(ERROR_INPUT, "its metadata has no %s: not a checkpoint of this program",
                         key);
    *ret_text = text;
    return OK;
}

static enum error wrong(const char *key, const char *text, const char *expected)
{
    char quoted[TEXT_QUOTE_BYTES];
    return error_set(ERROR_INPUT, "its metadata says %s %s, which is not %s", key,
                     text_quote(quoted, sizeof(quoted), text, strlen(text)), expected);
}

static enum error get_count(const struct safetensors *file, const char *key, int64_t minimum,
                            int64_t maximum, int64_t *ret_value)
{
    const char *text = "";
    enum error error = get(file, key, &text);
    if (error)
        return error;
    if (text_parse_integer(text, strlen(text), minimum, maximum, ret_value))
        return OK;
    char expected[80];
    snprintf(expected, sizeof(expected), "from %" PRId64 " to %" PRId64, minimum, maximum);
    return wrong(key, text, expected);
}

static enum error get_real(const struct safetensors *file, const char *key, double *ret_value)
{
    const char *text = "";
    enum error error = get(file, key, &text);
    if (error)
        return error;
    if (text_parse_real(text, strlen(text), ret_value) && isfinite((float)*ret_value))
        return OK;
    return wrong(key, text, "a number");
}

static enum error read_shape(const struct safetensors *file, struct model_shape *shape)
{
    const char *kind = "", *hidden = "";
    int64_t features, outputs;
    enum error error = get(file, "model", &kind);
    if (!error)
        error = get(file, "hidden_units", &hidden);
    if (!error)
        error = get_count(file, "features", 1, MODEL_WIDTH_LIMIT, &features);
    if (!error)
        error = get_count(file, "outputs", 1, MODEL_WIDTH_LIMIT, &outputs);
    if (error)
        return error;
    if (model_kind_by_name(kind, &shape->kind))
        return ERROR_INPUT;
    shape->features = (size_t)features;
    shape->outputs = (size_t)outputs;
    if (shape->kind == MODEL_MLP)
        return model_parse_hidden(hidden, shape) ? ERROR_INPUT : OK;
    return hidden[0] ? wrong("hidden_units", hidden, "empty for this model") : OK;
}

static enum error read_targets(const struct safetensors *file, struct model_options *model)
{
    double mean, deviation;
    if (!safetensors_metadata(file, "target_deviation"))
        return OK;
    enum error error = get_real(file, "target_mean", &mean);
    if (!error)
        error = get_real(file, "target_deviation", &deviation);
    if (error)
        return error;
    if (model->shape.kind != MODEL_LINEAR || (float)deviation <= 0)
        return wrong("target_deviation", safetensors_metadata(file, "target_deviation"),
                     "more than 0, or not of a regression");
    model->target_mean = (float)mean;
    model->target_deviation = (float)deviation;
    return OK;
}

/* Older checkpoints have only the learning rate. */
static enum error read_hyperparameters(const struct safetensors *file, struct model_options *model)
{
    enum error error = OK;
    for (size_t i = 0; i < HYPERPARAMETERS && !error; i++) {
        const char *text = safetensors_metadata(file, hyperparameter_name(i));
        if (text)
            error = hyperparameter_set(i, text, model);
    }
    if (!error && model_options_check(model))
        error = ERROR_INPUT;
    return error ? error_prefix(error, "its metadata is wrong: ") : OK;
}

static enum error read_model(const struct safetensors *file, struct model_options *model)
{
    const char *loss = "", *optimizer = "";
    double learning_rate;
    int64_t seed;
    enum error error = read_shape(file, &model->shape);
    if (!error)
        error = get(file, "loss", &loss);
    if (!error)
        error = get(file, "optimizer", &optimizer);
    if (!error)
        error = get_real(file, "learning_rate", &learning_rate);
    if (!error)
        error = get_count(file, "seed", 0, INT64_MAX, &seed);
    if (error)
        return error;
    model->seed = (uint64_t)seed;
    if (loss_by_name(loss, &model->loss) ||
        optimizer_init(&model->optimizer, optimizer, learning_rate))
        return ERROR_INPUT;
    if (loss_is_squared(model->loss) != (model->shape.kind == MODEL_LINEAR))
        return wrong("loss", loss, "a loss of its model");
    error = read_hyperparameters(file, model);
    return error ? error : read_targets(file, model);
}

static enum error read_classes(const struct safetensors *file, const struct model_shape *shape,
                               struct classes **ret_classes)
{
    struct classes *classes = NULL;
    cJSON *json = NULL;
    const char *text = "";
    enum error error = get(file, "classes", &text);
    if (error)
        return error;
    error = json_parse(text, strlen(text), "its list of classes", &json);
    if (error)
        return error;
    if (shape->kind == MODEL_LINEAR) {
        if (!cJSON_IsArray(json) || cJSON_GetArraySize(json) != 0)
            error = wrong("classes", text, "empty for a regression");
    } else {
        error = classes_new(json, "its metadata", &classes);
    }
    cJSON_Delete(json);
    if (classes && classes->count != shape->outputs) {
        error = error_set(ERROR_INPUT, "its metadata has %zu classes for %zu outputs",
                          classes->count, shape->outputs);
        classes_free(classes);
    }
    if (!error)
        *ret_classes = classes;
    return error;
}

/* Older checkpoints have no names. */
static enum error read_names(const struct safetensors *file, struct checkpoint_facts *facts)
{
    static const char what[] = "its list of feature names";
    const char *text = safetensors_metadata(file, "feature_names");
    enum error error = text ? feature_names_parse(text, what, &facts->names) : OK;
    if (!error && text && facts->names.count != facts->model.shape.features) {
        error = error_set(ERROR_INPUT, "%s has %zu features, the model has %zu", what,
                          facts->names.count, facts->model.shape.features);
        feature_names_release(&facts->names);
    }
    return error;
}

/* Only a training on a store with missing= or onehot= has one. */
static enum error read_recipe(const struct safetensors *file, struct checkpoint_facts *facts)
{
    static const char what[] = "its recipe of features";
    const char *text = safetensors_metadata(file, "feature_recipe");
    enum error error = text ? feature_recipe_parse(text, what, &facts->recipe) : OK;
    if (!error && text && facts->recipe->features != facts->model.shape.features)
        error = error_set(ERROR_INPUT, "%s makes %zu features, the model has %zu", what,
                          facts->recipe->features, facts->model.shape.features);
    return error;
}

static enum error read_vector(const struct safetensors *file, const char *name, size_t count,
                              float *ret_values)
{
    const struct safetensors_tensor *tensor = safetensors_find(file, name);
    if (!tensor || tensor->type != SAFETENSORS_F32 || tensor->rank != 1 ||
        tensor->shape[0] != count)
        return error_set(ERROR_INPUT, "it has no tensor %s of type F32 and shape [%zu]", name,
                         count);
    return safetensors_read(file, tensor, ret_values, count * sizeof(*ret_values));
}

/* Only a training with --normalize has them. */
static enum error read_norm(const struct safetensors *file, size_t features,
                            struct feature_norm *norm)
{
    if (!safetensors_find(file, CHECKPOINT_MEAN))
        return OK;
    enum error error = feature_norm_init(norm, features);
    if (!error)
        error = read_vector(file, CHECKPOINT_MEAN, features, norm->mean);
    if (!error)
        error = read_vector(file, CHECKPOINT_DEVIATION, features, norm->deviation);
    for (size_t i = 0; i < features && !error; i++) {
        if (!isfinite(norm->mean[i]) || !isfinite(norm->deviation[i]) || norm->deviation[i] <= 0)
            error = error_set(ERROR_INPUT, "feature %zu has mean %g and deviation %g", i,
                              (double)norm->mean[i], (double)norm->deviation[i]);
    }
    return error;
}

enum error checkpoint_facts_read(const struct safetensors *file, struct checkpoint_facts *ret_facts)
{
    struct checkpoint_facts facts = {.classes = NULL};
    const char *format = "", *sampler = "";
    enum error error = get(file, "format", &format);
    if (error)
        return error;
    if (strcmp(format, CHECKPOINT_FORMAT) != 0)
        return wrong("format", format, "'" CHECKPOINT_FORMAT "'");
    double scale;
    error = read_model(file, &facts.model);
    if (!error)
        error = get_real(file, "feature_scale", &scale);
    if (!error)
        error = get(file, "sampler", &sampler);
    if (!error)
        error =
            stream_position_parse(sampler, "its sampler position", &facts.position, &facts.done);
    if (!error)
        error = read_classes(file, &facts.model.shape, &facts.classes);
    if (!error)
        error = read_names(file, &facts);
    if (!error)
        error = read_recipe(file, &facts);
    if (!error)
        error = read_norm(file, facts.model.shape.features, &facts.norm);
    if (error) {
        checkpoint_facts_release(&facts);
        return error;
    }
    facts.feature_scale = (float)scale;
    *ret_facts = facts;
    return OK;
}

void checkpoint_facts_release(struct checkpoint_facts *facts)
{
    classes_free(facts->classes);
    facts->classes = NULL;
    feature_names_release(&facts->names);
    feature_recipe_free(facts->recipe);
    facts->recipe = NULL;
    feature_norm_release(&facts->norm);
    index_set_release(&facts->done);
}
