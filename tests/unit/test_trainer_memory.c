/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/checkpoint/logdir: every allocation of classes, models, checkpoints, logdirs and
 * sets of batches (trainer/ledger, trainer/wire) fails once: the program is linked with --wrap. The
 * answer must be ERROR_MEMORY, what was allocated is given back, and the logdir's newest checkpoint
 * is whole.
 */
#include "tests/unit/folder_unit.h"

#include "common/log.h"
#include "tests/unit/checkpoint_unit.h"
#include "tests/unit/failing_allocator.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/compute/engine.h"
#include "trainer/ledger/batch_ledger.h"
#include "trainer/ledger/step_batches.h"
#include "trainer/server/held_shard.h"
#include "trainer/wire/wire.h"

static const struct engine_options engine_options = {
    .device = "cpu", .blas = "plain", .threads = 1};
static struct engine engine;
static struct checkpoint_facts facts;

static void check(long nth, enum error error)
{
    if (error && error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    if (error)
        assert_non_null(strstr(error_message(), "memory"));
}

static enum error make_classes(struct classes **ret_classes)
{
    static const char text[] = "[0,5,10]";
    cJSON *json = NULL;
    enum error error = json_parse(text, sizeof(text) - 1, "the labels", &json);
    if (!error)
        error = classes_new(json, "the labels", ret_classes);
    cJSON_Delete(json);
    return error;
}

static enum error use_classes(void)
{
    struct classes *classes = NULL;
    struct buffer printed = BUFFER_INIT(1000);
    enum error error = make_classes(&classes);
    if (!error)
        error = classes_print(classes, &printed);
    buffer_release(&printed);
    classes_free(classes);
    return error;
}

static enum error use_model(void)
{
    struct model *model = NULL;
    enum error error = model_new(&facts.model, engine.kernel, &model);
    model_free(model);
    return error;
}

/* Two saves; what `newest` finds afterwards is whole. */
static enum error use_logdir(void)
{
    struct logdir *logdir = NULL;
    struct model *model = NULL;
    struct checkpoint *newest = NULL;
    enum error error = model_new(&facts.model, engine.kernel, &model);
    if (!error)
        error = logdir_open(folder, 0, &logdir);
    for (int i = 0; !error && i < 2; i++)
        error = save_checkpoint(logdir, model, &facts);
    if (!error)
        error = logdir_newest(logdir, &newest);
    if (!error)
        error = checkpoint_restore(newest, model);
    checkpoint_close(newest);
    logdir_close(logdir);
    model_free(model);
    return error;
}

static void check_logdir(long nth, enum error error)
{
    struct logdir *logdir;
    struct checkpoint *newest;
    check(nth, error);
    assert_ok(logdir_open_read(folder, &logdir));
    assert_ok(logdir_newest(logdir, &newest)); /* of the first run at least */
    assert_non_null(newest);
    checkpoint_close(newest);
    logdir_close(logdir);
}

/* Sets with gaps, so that none fits where another one was. */
static enum error use_batches(void)
{
    struct index_range read[40];
    struct index_set done = {.count = 0};
    struct batch_holder holder = {.held = {.count = 0}};
    struct batch_ledger ledger = {.next = 0};
    for (int64_t i = 0; i < 40; i++)
        read[i] = (struct index_range){4 * i, 4 * i + 1};
    enum error error = wire_ranges_read(read, 40, &done);
    if (!error)
        error = batch_ledger_init(&ledger, &done);
    for (int64_t batch = 161; batch < 261 && !error; batch += 2)
        error = batch_ledger_grant_one(&ledger, &holder, batch);
    for (int64_t batch = 161; batch < 261 && !error; batch += 4)
        error = batch_ledger_done(&ledger, &holder, batch);
    if (!error)
        error = batch_ledger_give_back(&ledger, &holder);
    if (!error) {
        assert_int_equal(index_set_size(&ledger.done), 40 + 25);
        assert_int_equal(index_set_size(&ledger.returned), ledger.next - 65);
    }
    batch_ledger_release(&ledger);
    index_set_release(&holder.held);
    index_set_release(&done);
    return error;
}

/* No set has room for one range more, so that each change of a set allocates. */
static void fill_up(struct index_set *set)
{
    set->capacity = set->count;
}

static void fill_up_all(struct batch_ledger *ledger, struct batch_holder *holder)
{
    fill_up(&ledger->done);
    fill_up(&ledger->returned);
    fill_up(&holder->held);
}

/* Each call of a ledger once, on sets without room. */
static enum error change_ledger(struct batch_ledger *ledger, struct batch_holder *holder)
{
    struct index_range range = {.first = -1};
    fill_up_all(ledger, holder);
    enum error error = batch_ledger_grant(ledger, holder, 2, &range);
    assert_true(error ? range.first == -1 : range.first == 1 && range.end == 3);
    fill_up_all(ledger, holder);
    if (!error)
        error = batch_ledger_grant_one(ledger, holder, 200);
    fill_up_all(ledger, holder);
    if (!error)
        error = batch_ledger_done(ledger, holder, 1);
    fill_up_all(ledger, holder);
    if (!error)
        error = batch_ledger_end(ledger, 150);
    fill_up_all(ledger, holder);
    return error ? error : batch_ledger_give_back(ledger, holder);
}

static enum error use_ledger(void)
{
    struct index_set done = {.count = 0};
    struct batch_holder holder = {.held = {.count = 0}};
    struct batch_ledger ledger = {.next = 0};
    enum error error = OK;
    for (int64_t i = 0; i < 40 && !error; i++)
        error = index_set_add(&done, (struct index_range){4 * i, 4 * i + 1});
    if (!error)
        error = batch_ledger_init(&ledger, &done);
    if (!error)
        error = change_ledger(&ledger, &holder);
    if (!error)
        assert_int_equal(index_set_size(&ledger.done) + index_set_size(&ledger.returned),
                         150 + 2); /* of 152 and 156 is known that they are done */
    batch_ledger_release(&ledger);
    index_set_release(&holder.held);
    index_set_release(&done);
    return error;
}

static enum error apply_steps(void)
{
    struct index_set applied = {.count = 0};
    enum error error = index_set_add(&applied, (struct index_range){5, 6});
    if (error)
        return error;
    fill_up(&applied);
    error = step_batches_apply(&applied, 9, INT64_MAX);
    assert_int_equal(index_set_size(&applied), error ? 1 : 10);
    index_set_release(&applied);
    return error;
}

/* A shard that begins with batches behind it. */
static enum error use_shard(void)
{
    static const float state[3];
    struct model_shape shape = {.kind = MODEL_LINEAR, .features = 2, .outputs = 1};
    struct index_set applied = {.count = 0};
    struct held_shard held;
    struct model_layout layout;
    struct optimizer optimizer;
    struct shard shard;
    assert_ok(optimizer_init(&optimizer, "sgd", 1));
    assert_ok(model_layout_init(&layout, &shape, &optimizer));
    shard_init(&shard, &layout, 1, 0, false);
    enum error error = held_shard_open(&held, &engine_options, 2);
    if (!error)
        error = held_shard_shape(&held, &layout, &shard, &optimizer);
    if (!error)
        error = index_set_add(&applied, (struct index_range){3, 5});
    if (!error)
        error = held_shard_begin(&held, 7, state, 2, &applied);
    if (!error)
        assert_int_equal(held_shard_next(&held, 3), 5);
    index_set_release(&applied);
    held_shard_close(&held);
    return error;
}

static void begin(void)
{
    log_set_level((enum log_level)(LOG_ERROR + 1));
    facts = (struct checkpoint_facts){
        .model = {.shape = {.kind = MODEL_MLP,
                            .features = 3,
                            .outputs = 3,
                            .hidden = {4, 2},
                            .hidden_count = 2},
                  .loss = LOSS_CLIPPED_SUM,
                  .seed = 1,
                  .batch_rows = 2},
        .feature_scale = 1,
        .position = {.stream = {.name = "default",
                                .digest = "0123456789abcdef0123456789abcdef",
                                .design = "proportional",
                                .tail = "keep",
                                .units = 20000,
                                .epoch_draws = 20000},
                     .batch_rows = 100}};
    assert_ok(engine_open(&engine_options, &engine));
    assert_ok(optimizer_init(&facts.model.optimizer, "adam", 0.1));
    assert_ok(make_classes(&facts.classes));
}

static void end(void)
{
    classes_free(facts.classes);
    engine_close(&engine);
}

static void test_classes(void **state)
{
    (void)state;
    fail_each(use_classes, check);
}

static void test_models(void **state)
{
    (void)state;
    begin();
    fail_each(use_model, check);
    end();
}

static void test_logdirs(void **state)
{
    (void)state;
    begin();
    fail_each(use_logdir, check_logdir);
    end();
}

static void test_sets_of_batches(void **state)
{
    (void)state;
    fail_each(use_batches, check);
}

static void test_ledgers_without_room(void **state)
{
    (void)state;
    fail_each(use_ledger, check);
    fail_each(apply_steps, check);
}

static void test_shards(void **state)
{
    (void)state;
    begin();
    fail_each(use_shard, check);
    end();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

static const struct CMUnitTest tests[] = {
    TEST(test_classes),
    TEST(test_models),
    TEST(test_logdirs),
    TEST(test_sets_of_batches),
    TEST(test_ledgers_without_room),
    TEST(test_shards),
};

UNIT_MAIN(tests)
