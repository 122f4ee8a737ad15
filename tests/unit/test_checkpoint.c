/* SPDX-License-Identifier: MIT */
/* Covers trainer/checkpoint/checkpoint. */
#include "tests/unit/fake_sampler.h"

#include <fcntl.h>
#include <math.h>

#include "common/file.h"
#include "tests/unit/checkpoint_unit.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/sampler_order.h"
#include "trainer/compute/engine.h"

#define FEATURES 3

static char folder[256];
static char path[300];
static struct engine engine;
static struct classes *three_classes;

static struct classes *make_classes(const char *json_text)
{
    struct classes *classes = NULL;
    cJSON *json = NULL;

    assert_ok(json_parse(json_text, strlen(json_text), "test", &json));
    assert_ok(classes_new(json, "test", &classes));
    cJSON_Delete(json);
    return classes;
}

static int set_up(void **state)
{
    struct engine_options options = {.device = "cpu", .blas = "plain", .threads = 1};

    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/x.safetensors", folder);
    assert_ok(engine_open(&options, &engine));
    three_classes = make_classes("[0,5,10]");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    classes_free(three_classes);
    engine_close(&engine);
    unit_folder_remove(folder);
    return 0;
}

/* Batches 17 to 19 and 21 to 29 are holes. */
static struct index_range done[] = {{0, 17}, {20, 21}, {30, 4711}};

/* A sampler position whose holes are what `holes` says. */
#define SAMPLER_WITH(holes)                                                             \
    "{\"name\":\"default\",\"digest\":\"00\",\"design\":\"srs\",\"replacement\":false," \
    "\"seed\":1,\"tail\":\"keep\",\"units\":5,\"epochs\":0,\"epoch_draws\":5,"          \
    "\"batch_size\":1,\"next_index\":10,\"holes\":" holes "}"

static struct checkpoint_facts make_facts(const char *optimizer)
{
    struct checkpoint_facts facts = {
        .model = {.shape = {.kind = MODEL_MLP,
                            .features = FEATURES,
                            .outputs = 3,
                            .hidden = {4, 2},
                            .hidden_count = 2},
                  .loss = LOSS_CLIPPED_SUM,
                  .seed = 9223372036854775807u,
                  .batch_rows = 2},
        .feature_scale = 1.0f / 255.0f,
        .classes = three_classes,
        .position = {.stream = {.name = "default",
                                .digest = "0123456789abcdef0123456789abcdef",
                                .design = "proportional",
                                .tail = "keep",
                                .seed = 9007199254740993, /* 2^53 + 1: no double */
                                .units = 20000,
                                .epochs = 12,
                                .epoch_draws = 15000},
                     .batch_rows = 100},
        .done = {.ranges = done, .count = sizeof(done) / sizeof(*done)}};

    /* Eight digits would name the float beside it. */
    assert_ok(optimizer_init(&facts.model.optimizer, optimizer, 0.100000024));
    return facts;
}

static struct model *make_model(const struct checkpoint_facts *facts)
{
    struct model *model = NULL;

    assert_ok(model_new(&facts->model, engine.kernel, &model));
    return model;
}

static void train(struct model *model, int steps)
{
    const float features[2 * FEATURES] = {1, 0.5f, 0, -1, 0, 0.25f};
    const int32_t classes[2] = {0, 2};
    struct model_batch batch = {.rows = 2, .features = features, .classes = classes};

    for (int i = 0; i < steps; i++)
        assert_ok(model_step(model, &batch));
}

static float *state_of(struct model *model)
{
    float *state = calloc(model_state_count(model), sizeof(*state));

    assert_non_null(state);
    assert_ok(model_read(model, state));
    return state;
}

static void assert_same_state(struct model *a, struct model *b)
{
    float *left = state_of(a), *right = state_of(b);

    assert_int_equal(model_state_count(a), model_state_count(b));
    assert_memory_equal(left, right, model_state_count(a) * sizeof(float));
    assert_int_equal(model_get_step(a), model_get_step(b));
    free(left);
    free(right);
}

static void test_facts_read_back(void **state)
{
    struct checkpoint_facts facts = make_facts("momentum");
    struct model *model = make_model(&facts);
    struct checkpoint *checkpoint = NULL;
    const struct checkpoint_facts *read;

    (void)state;
    train(model, 3);
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(checkpoint_open(path, &checkpoint));
    read = checkpoint_get_facts(checkpoint);
    assert_int_equal(checkpoint_step(checkpoint), 3);
    assert_string_equal(checkpoint_path(checkpoint), path);
    assert_int_equal(read->model.shape.kind, MODEL_MLP);
    assert_int_equal(read->model.shape.features, FEATURES);
    assert_int_equal(read->model.shape.outputs, 3);
    assert_int_equal(read->model.shape.hidden_count, 2);
    assert_int_equal(read->model.shape.hidden[0], 4);
    assert_int_equal(read->model.shape.hidden[1], 2);
    assert_int_equal(read->model.loss, LOSS_CLIPPED_SUM);
    assert_string_equal(optimizer_name(&read->model.optimizer), "momentum");
    assert_true(read->model.optimizer.learning_rate == 0.100000024f);
    assert_true(read->model.seed == facts.model.seed);
    assert_true(read->feature_scale == 1.0f / 255.0f);
    assert_ok(classes_compare(read->classes, "theirs", three_classes, "ours"));
    assert_ok(sampler_order_compare(&read->position, "theirs", &facts.position));
    assert_int_equal(read->done.count, sizeof(done) / sizeof(*done));
    assert_memory_equal(read->done.ranges, done, sizeof(done));
    assert_int_equal(read->position.batch_rows, 100);
    assert_string_equal(read->position.stream.name, "default");
    assert_int_equal(read->position.stream.units, 20000);
    assert_int_equal(read->position.stream.epochs, 12);
    assert_int_equal(read->position.stream.epoch_draws, 15000);
    checkpoint_close(checkpoint);
    model_free(model);
}

/* What a training chose is kept, and only that: whoever chose nothing has the bytes of before. */
static void test_hyperparameters_are_kept(void **state)
{
    struct checkpoint_facts facts = make_facts("adam");
    struct model_options *model = &facts.model;
    struct checkpoint *checkpoint = NULL;
    struct buffer bytes = BUFFER_INIT(1 << 20);

    (void)state;
    assert_ok(checkpoint_print_facts(&facts, 0, &bytes));
    for (size_t i = 1; i < HYPERPARAMETERS; i++)
        assert_null(memmem(bytes.data, bytes.length, hyperparameter_name(i),
                           strlen(hyperparameter_name(i))));
    model->optimizer.schedule = (struct schedule){SCHEDULE_COSINE, 7, 900, 0, 0.001f};
    model->optimizer.beta2 = 0.99f;
    model->optimizer.weight_decay = 0.01f;
    model->clip.norm = 2.5f;
    model->dropout = 0.3f;
    buffer_clear(&bytes);
    assert_ok(checkpoint_print_facts(&facts, 0, &bytes));
    assert_ok(checkpoint_open_facts("it", bytes.data, bytes.length, &checkpoint));
    assert_int_equal(hyperparameters_difference(&checkpoint_get_facts(checkpoint)->model, model),
                     HYPERPARAMETERS);
    assert_ok(checkpoint_compare_hyperparameters(checkpoint, model));
    model->dropout = 0.25f;
    assert_ok(checkpoint_compare(checkpoint, model));
    assert_fails(checkpoint_compare_hyperparameters(checkpoint, model), ERROR_CONFLICT,
                 "it has the dropout 0.3, not 0.25");
    checkpoint_close(checkpoint);
    facts = make_facts("adagrad");
    model->optimizer.initial_accumulator = 0.5f;
    buffer_clear(&bytes);
    assert_ok(checkpoint_print_facts(&facts, 0, &bytes));
    assert_ok(checkpoint_open_facts("it", bytes.data, bytes.length, &checkpoint));
    model->optimizer.initial_accumulator = 0.1f;
    assert_fails(checkpoint_compare(checkpoint, model), ERROR_CONFLICT,
                 "initial_accumulator is 0.5, this run's is 0.1");
    checkpoint_close(checkpoint);
    buffer_release(&bytes);
}

/* For each optimizer: save after 3 steps, go on from there, and be where 7 steps without a break
 * lead, bit for bit. */
static void test_training_goes_on_as_if_never_interrupted(void **state)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct checkpoint_facts facts = make_facts(optimizers[i]);
        struct model *straight = make_model(&facts), *first = make_model(&facts), *second;
        struct checkpoint *checkpoint = NULL;

        train(straight, 7);
        train(first, 3);
        assert_ok(write_checkpoint(path, first, &facts));
        facts.model.seed = 1; /* initial values must not shine through */
        second = make_model(&facts);
        assert_ok(checkpoint_open(path, &checkpoint));
        assert_ok(checkpoint_compare(checkpoint, &facts.model));
        assert_ok(checkpoint_restore(checkpoint, second));
        assert_same_state(first, second);
        train(second, 4);
        assert_same_state(straight, second);
        checkpoint_close(checkpoint);
        model_free(straight);
        model_free(first);
        model_free(second);
    }
}

static void test_what_features_and_targets_are_normalized_with(void **state)
{
    struct checkpoint_facts facts = make_facts("adam");
    struct checkpoint *checkpoint = NULL;

    (void)state;
    facts.model.shape =
        (struct model_shape){.kind = MODEL_LINEAR, .features = FEATURES, .outputs = 1};
    facts.model.loss = LOSS_SQUARED_MEAN;
    facts.model.target_mean = -1.5f;
    facts.model.target_deviation = 0.1f;
    facts.classes = NULL;
    assert_ok(feature_norm_init(&facts.norm, FEATURES));
    for (size_t i = 0; i < FEATURES; i++) {
        facts.norm.mean[i] = (float)i - 0.1f;
        facts.norm.deviation[i] = 3.0f / (float)(i + 1);
    }
    struct model *model = make_model(&facts);
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(checkpoint_open(path, &checkpoint));
    const struct checkpoint_facts *read = checkpoint_get_facts(checkpoint);
    assert_true(read->model.target_mean == -1.5f && read->model.target_deviation == 0.1f);
    assert_int_equal(read->norm.features, FEATURES);
    assert_memory_equal(read->norm.mean, facts.norm.mean, FEATURES * sizeof(float));
    assert_memory_equal(read->norm.deviation, facts.norm.deviation, FEATURES * sizeof(float));
    checkpoint_close(checkpoint);
    facts.norm.deviation[1] = 0;
    assert_ok(write_checkpoint(path, model, &facts));
    assert_fails(checkpoint_open(path, &checkpoint), ERROR_INPUT,
                 "feature 1 has mean 0.9 and deviation 0");
    feature_norm_release(&facts.norm);
    model_free(model);
}

static void test_parameters_alone_can_be_restored(void **state)
{
    struct checkpoint_facts facts = make_facts("adam");
    struct model *model = make_model(&facts), *bare;
    struct checkpoint *checkpoint = NULL;
    float *full, *parameters;

    (void)state;
    train(model, 2);
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(optimizer_init(&facts.model.optimizer, "sgd", 1));
    bare = make_model(&facts);
    assert_ok(checkpoint_open(path, &checkpoint));
    assert_ok(checkpoint_restore(checkpoint, bare));
    full = state_of(model);
    parameters = state_of(bare);
    assert_memory_equal(full, parameters, model_parameters(model) * sizeof(float));
    free(full);
    free(parameters);
    checkpoint_close(checkpoint);
    model_free(model);
    model_free(bare);
}

static void test_the_same_state_gives_the_same_bytes(void **state)
{
    struct checkpoint_facts facts = make_facts("adagrad");
    struct model *model = make_model(&facts);
    struct buffer one = BUFFER_INIT(1 << 20), two = BUFFER_INIT(1 << 20);

    (void)state;
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(file_read_whole(path, &one));
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(file_read_whole(path, &two));
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.data, two.data, one.length);
    buffer_release(&one);
    buffer_release(&two);
    model_free(model);
}

/* Rotation may remove the file while its model is scored. */
static void test_a_copy_is_made_of_a_file_whose_name_is_gone(void **state)
{
    struct checkpoint_facts facts = make_facts("adagrad");
    struct model *model = make_model(&facts);
    struct checkpoint *checkpoint = NULL;
    struct buffer one = BUFFER_INIT(1 << 20), two = BUFFER_INIT(1 << 20);

    (void)state;
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(file_read_whole(path, &one));
    assert_ok(checkpoint_open(path, &checkpoint));
    assert_int_equal(unlink(path), 0);
    assert_ok(checkpoint_copy(checkpoint, path));
    checkpoint_close(checkpoint);
    assert_ok(file_read_whole(path, &two));
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.data, two.data, one.length);
    buffer_release(&one);
    buffer_release(&two);
    model_free(model);
}

static void test_another_model_is_a_conflict_that_names_the_difference(void **state)
{
    struct checkpoint_facts facts = make_facts("adagrad");
    struct model *model = make_model(&facts);
    struct checkpoint *checkpoint = NULL;
    struct model_options other;

    (void)state;
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(checkpoint_open(path, &checkpoint));
    other = facts.model;
    other.shape.kind = MODEL_SOFTMAX;
    assert_fails(checkpoint_compare(checkpoint, &other), ERROR_CONFLICT,
                 "model is mlp, this run's is softmax");
    other = facts.model;
    other.shape.hidden[1] = 5;
    assert_fails(checkpoint_compare(checkpoint, &other), ERROR_CONFLICT,
                 "hidden_units is 4,2, this run's is 4,5");
    other = facts.model;
    other.loss = LOSS_MEAN;
    assert_fails(checkpoint_compare(checkpoint, &other), ERROR_CONFLICT, "loss");
    other = facts.model;
    assert_ok(optimizer_init(&other.optimizer, "sgd", 0.1));
    assert_fails(checkpoint_compare(checkpoint, &other), ERROR_CONFLICT,
                 "optimizer is adagrad, this run's is sgd");
    other = facts.model;
    other.shape.features = 4;
    assert_fails(checkpoint_compare(checkpoint, &other), ERROR_CONFLICT, "features is 3");
    other = facts.model;
    other.shape.outputs = 2;
    assert_fails(checkpoint_compare(checkpoint, &other), ERROR_CONFLICT, "outputs is 3");
    other = facts.model;
    other.shape.features = other.shape.outputs = 0; /* not known yet */
    other.optimizer.learning_rate = 5;
    other.seed = 5;
    assert_ok(checkpoint_compare(checkpoint, &other));
    checkpoint_close(checkpoint);
    model_free(model);
}

static void test_tensors_must_fit_the_model(void **state)
{
    struct checkpoint_facts facts = make_facts("sgd");
    struct model *model = make_model(&facts), *larger;
    struct checkpoint *checkpoint = NULL;

    (void)state;
    assert_ok(write_checkpoint(path, model, &facts));
    assert_ok(checkpoint_open(path, &checkpoint));
    facts.model.shape.hidden[0] = 6;
    larger = make_model(&facts);
    assert_fails(checkpoint_restore(checkpoint, larger), ERROR_CONFLICT, "hid1_w is not F32");
    model_free(larger);
    facts = make_facts("adagrad");
    larger = make_model(&facts);
    assert_fails(checkpoint_restore(checkpoint, larger), ERROR_CONFLICT,
                 "no tensor hid1_w/Adagrad");
    model_free(larger);
    checkpoint_close(checkpoint);
    model_free(model);
}

static void test_a_diverged_state_is_never_written(void **state)
{
    struct checkpoint_facts facts = make_facts("sgd");
    struct model *model = make_model(&facts);
    float *values = state_of(model);
    int descriptor;

    (void)state;
    values[5] = NAN;
    assert_ok(model_write(model, values, 8));
    assert_fails(write_checkpoint(path, model, &facts), ERROR_INPUT, "after step 8");
    values[5] = -INFINITY;
    assert_ok(model_write(model, values, 8));
    assert_fails(write_checkpoint(path, model, &facts), ERROR_INPUT, "hid1_w is -inf");
    assert_fails(file_open_read(path, &descriptor), ERROR_NOT_FOUND, path);
    free(values);
    model_free(model);
}

/* Another program may write one. */
static void test_a_diverged_state_is_never_taken(void **state)
{
    static const float values[][3] = {{1, 2, 3}, {1, NAN, 3}, {1, 2, -INFINITY}};
    static const char *const messages[] = {NULL, "element 1 of tensor hid_b is NaN",
                                           "element 2 of tensor hid_b is infinite"};
    struct checkpoint_facts facts = make_facts("sgd");
    struct checkpoint *checkpoint = NULL;

    (void)state;
    facts.model.shape = (struct model_shape){
        .kind = MODEL_MLP, .features = 1, .outputs = 3, .hidden = {3}, .hidden_count = 1};
    struct model *model = make_model(&facts);
    float *before = state_of(model);
    for (size_t i = 0; i < 3; i++) {
        const struct safetensors_entry entries[] = {
            {"hid_w", SAFETENSORS_F32, 2, {1, 3}, values[0]},
            {"hid_b", SAFETENSORS_F32, 1, {3}, values[i]},
            {"sm_w", SAFETENSORS_F32, 2, {3, 3}, before},
            {"sm_b", SAFETENSORS_F32, 1, {3}, values[0]}};
        struct buffer bytes = BUFFER_INIT(1 << 16);
        assert_ok(safetensors_print(entries, 4, NULL, 0, &bytes));
        assert_ok(file_write_whole(path, bytes.data, bytes.length));
        buffer_release(&bytes);
        assert_ok(checkpoint_open_foreign(path, &checkpoint));
        if (messages[i])
            assert_fails(checkpoint_restore_parameters(checkpoint, model), ERROR_INPUT,
                         messages[i]);
        else
            assert_ok(checkpoint_restore_parameters(checkpoint, model));
        checkpoint_close(checkpoint);
    }
    float *after = state_of(model);
    assert_memory_equal(after, values[0], sizeof(values[0])); /* of the file that was taken */
    free(before);
    free(after);
    model_free(model);
}

/* A safetensors file that verifies, of one tensor and this metadata. */
static void put(const struct safetensors_pair *pairs, size_t count)
{
    const int64_t step = 1;
    struct safetensors_entry entry = {
        .name = "global_step", .type = SAFETENSORS_I64, .data = &step};

    assert_ok(safetensors_write(path, &entry, 1, pairs, count));
}

static void test_foreign_files_are_refused(void **state)
{
    struct safetensors_pair pairs[] = {
        {"format", CHECKPOINT_FORMAT},
        {"model", "softmax"},
        {"features", "4"},
        {"hidden_units", ""},
        {"outputs", "2"},
        {"loss", "mean"},
        {"optimizer", "sgd"},
        {"learning_rate", "0.5"},
        {"seed", "1"},
        {"feature_scale", "1"},
        {"classes", "[\"a\",\"b\"]"},
        {"sampler", "{\"name\":\"default\",\"digest\":\"00\",\"design\":\"srs\",\"replacement\":"
                    "false,\"seed\":1,\"tail\":\"keep\",\"units\":5,\"epochs\":0,\"epoch_draws\":5,"
                    "\"batch_size\":1,"
                    "\"next_index\":0}"},
        {"weight_decay", "0.5"},
        {"warmup_steps", "3"},
        {"learning_rate_schedule", "constant"},
        {"dropout", "0"},
    };
    static const struct {
        int place;
        const char *value, *message;
    } wrong[] = {
        {0, "pt", "format"},
        {1, "forest", "forest"},
        {1, "mlp", "hidden"},
        {1, "linear", "loss"},
        {2, "0", "features"},
        {2, "4.0", "features"},
        {3, "100", "hidden_units"},
        {4, "3", "2 classes for 3 outputs"},
        {5, "squared_mean", "loss"},
        {6, "lbfgs", "lbfgs"},
        {7, "0", "learning"},
        {7, "fast", "learning_rate"},
        {8, "-1", "seed"},
        {9, "inf", "feature_scale"},
        {10, "[\"a\",\"a\"]", "twice"},
        {10, "a,b", "classes"},
        {11, "{}", "sampler position"},
        {11, "", "sampler position"},
        {11,
         "{\"name\":\"default\",\"digest\":\"00\",\"design\":\"srs\",\"replacement\":false,"
         "\"seed\":1,\"tail\":\"keep\",\"units\":5,\"epochs\":0,\"epoch_draws\":5,"
         "\"batch_size\":0,\"next_index\":0}",
         "not counts"},
        {11,
         "{\"name\":\"default\",\"digest\":\"00\",\"design\":\"srs\",\"replacement\":false,"
         "\"seed\":1,\"tail\":\"keep\",\"units\":5,\"epochs\":0,\"epoch_draws\":5,"
         "\"batch_size\":1,\"next_index\":-1}",
         "not counts"},
        {11, SAMPLER_WITH("5"), "not a list"},
        {11, SAMPLER_WITH("[[0]]"), "ascending"},
        {11, SAMPLER_WITH("[[0,0]]"), "ascending"},
        {11, SAMPLER_WITH("[[-1,2]]"), "ascending"},
        {11, SAMPLER_WITH("[[0,2],[2,3]]"), "ascending"},
        {11, SAMPLER_WITH("[[4,5],[1,2]]"), "ascending"},
        {11, SAMPLER_WITH("[[8,10]]"), "before batch 10"},
        {12, "-1", "weight decay is -1"},
        {12, "heavy", "weight_decay"},
        {13, "1.5", "warmup_steps"},
        {14, "plateau", "learning_rate_schedule"},
        {14, "step", "0 decay steps"},
        {15, "1", "dropout is 1"},
        {15, "0.5", "a softmax model has none"},
    };
    size_t count = sizeof(pairs) / sizeof(pairs[0]);
    struct checkpoint *checkpoint = NULL;

    (void)state;
    put(pairs, count);
    assert_ok(checkpoint_open(path, &checkpoint));
    checkpoint_close(checkpoint);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct safetensors_pair kept = pairs[wrong[i].place];

        checkpoint = NULL;
        pairs[wrong[i].place].value = wrong[i].value;
        put(pairs, count);
        assert_fails(checkpoint_open(path, &checkpoint), ERROR_INPUT, wrong[i].message);
        assert_fails(checkpoint_open(path, &checkpoint), ERROR_INPUT, path);
        pairs[wrong[i].place] = kept;
    }
    for (size_t i = 0; i < count; i++) {
        struct safetensors_pair kept = pairs[i];

        pairs[i].key = "other";
        put(pairs, count);
        if (i > 11) { /* older checkpoints have none of these */
            assert_ok(checkpoint_open(path, &checkpoint));
            checkpoint_close(checkpoint);
            pairs[i] = kept;
            continue;
        }
        assert_fails(checkpoint_open(path, &checkpoint), ERROR_INPUT, kept.key);
        pairs[i] = kept;
    }
    assert_ok(file_write_whole(path, "label,p0\n1,2\n3,4\n", 17));
    assert_fails(checkpoint_open(path, &checkpoint), ERROR_INPUT, "not a safetensors file");
}

/* What `logs` to standard error during the call. */
static enum error peek(const char *url, struct sampler_stream *ret_stream, char logged[1000])
{
    int before = dup(STDERR_FILENO), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    enum error error;
    ssize_t length;

    assert_true(before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    error = sampler_order_peek(url, NULL, ret_stream);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    length = pread(file, logged, 999, 0);
    assert_true(length >= 0);
    logged[length] = '\0';
    close(file);
    close(before);
    return error;
}

static void test_a_peek_tells_another_order_and_is_silent_about_a_sampler_that_is_away(void **state)
{
    struct fake_sampler *sampler = calloc(1, sizeof(*sampler)), silent = {.units = 1};
    struct sampler_stream first, second;
    char logged[1000];

    (void)state;
    sampler->units = 100;
    sampler->new_seed = true;
    fake_bind(&silent);
    assert_int_equal(peek(silent.url, &first, logged), ERROR_NETWORK); /* nobody listens */
    assert_string_equal(logged, "");
    assert_int_equal(listen(silent.listener, 64), 0); /* connects, but nobody answers */
    assert_int_equal(peek(silent.url, &first, logged), ERROR_TIMEOUT);
    assert_string_equal(logged, "");
    close(silent.listener);
    fake_start(sampler);
    assert_ok(sampler_order_fetch(sampler->url, NULL, 5000, &first));
    assert_int_equal(first.units, 100);
    assert_ok(peek(sampler->url, &second, logged));
    assert_string_equal(logged, "");
    assert_int_not_equal(first.seed, second.seed);
    fake_stop(sampler);
    free(sampler);
}

static void test_positions_differ_by_what_orders_differ_by(void **state)
{
    struct stream_position ours = make_facts("sgd").position, theirs = ours;

    (void)state;
    theirs.stream.units = 0;
    assert_ok(sampler_order_compare(&theirs, "it", &ours));
    theirs.stream.seed = 7;
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT,
                 "seed is 7, the sampler's is 9007199254740993");
    theirs = ours;
    snprintf(theirs.stream.digest, sizeof(theirs.stream.digest), "ffff");
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT, "another frame");
    theirs = ours;
    snprintf(theirs.stream.design, sizeof(theirs.stream.design), "srs");
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT, "design is srs");
    theirs = ours;
    theirs = ours;
    snprintf(theirs.stream.order, sizeof(theirs.stream.order), "%s", "12ab");
    snprintf(ours.stream.order, sizeof(ours.stream.order), "%s", "12ac");
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT,
                 "it belongs to another order, 12ab, the sampler's is 12ac");
    theirs.stream.order[0] = '\0';
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT,
                 "a version whose orders had no name");
    theirs = ours;
    snprintf(theirs.stream.tail, sizeof(theirs.stream.tail), "drop");
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT, "tail is drop");
    theirs = ours;
    theirs.stream.replacement = true;
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT, "replacement is yes");
    theirs = ours;
    theirs.batch_rows = 50;
    assert_fails(sampler_order_compare(&theirs, "it", &ours), ERROR_CONFLICT,
                 "batches of 50 rows, this run has --batch-size 100");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_facts_read_back, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_hyperparameters_are_kept, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_training_goes_on_as_if_never_interrupted, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(test_what_features_and_targets_are_normalized_with, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(test_parameters_alone_can_be_restored, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_the_same_state_gives_the_same_bytes, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_a_copy_is_made_of_a_file_whose_name_is_gone, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(test_another_model_is_a_conflict_that_names_the_difference,
                                    set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_tensors_must_fit_the_model, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_a_diverged_state_is_never_written, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_a_diverged_state_is_never_taken, set_up, tear_down),
    cmocka_unit_test_setup_teardown(test_foreign_files_are_refused, set_up, tear_down),
    cmocka_unit_test_setup_teardown(
        test_a_peek_tells_another_order_and_is_silent_about_a_sampler_that_is_away, set_up,
        tear_down),
    cmocka_unit_test_setup_teardown(test_positions_differ_by_what_orders_differ_by, set_up,
                                    tear_down),
};

UNIT_MAIN(tests)
