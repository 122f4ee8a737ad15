/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/service/label_counter: How many units of each label were handed out: counted right
 * whatever is asked for next, and told truly of what a seek, a restore, a tail or an end left.
 */
#include "tests/unit/design_unit.h"
#include "tests/unit/stream_unit.h"

#include "common/json.h"
#include "sampler/build/frame_build.h"
#include "sampler/design/designs.h"
#include "sampler/ledger/ledger_skipped.h"
#include "sampler/service/label_balance.h"
#include "sampler/service/label_counter.h"
#include "sampler/stream/tally.h"

enum { UNITS = 60, EPOCHS = 3, SPANS = 40, FRAME_LABELS = 3 };

/* ---- the tally ---------------------------------------------------------- */

/* However many calls it takes. */
static void tally_all(struct tally *tally, const struct tally_set *set, int64_t *counts)
{
    int64_t left;
    do
        assert_ok(tally_counts(tally, set, 0, counts, &left));
    while (left > 0);
}

static void add_units(const struct order *order, const struct interval *span, int64_t *counts)
{
    for (int64_t p = span->begin; p < span->end; p++) {
        int64_t id;
        uint32_t label;
        if (order_units(order, p, 1, &id, &label, NULL) == 1)
            counts[label]++;
    }
}

/* Some spans of an epoch of m positions, apart from each other. */
static size_t any_spans(int64_t start, int64_t m, struct interval *spans)
{
    size_t count = 0;
    int64_t at = rand() % 4 == 0 ? 0 : rand() % m;
    while (at < m && count < SPANS) {
        int64_t end = at + 1 + rand() % (rand() % 2 == 0 ? 5 : m);
        end = end < m ? end : m;
        spans[count++] = (struct interval){start + at, start + end};
        at = end + 1 + rand() % 5;
    }
    return count;
}

static void check_any_spans(const struct frame *frame, const struct order *order)
{
    int64_t m = order_epoch_positions(order);
    struct interval spans[SPANS];
    struct tally *tally;
    assert_ok(tally_new(frame, order, &tally));
    for (int round = 0; round < 200; round++) {
        int64_t epoch = rand() % EPOCHS;
        int64_t expected[FRAME_LABELS] = {0};
        int64_t counts[FRAME_LABELS];
        struct tally_set set = {epoch, spans, any_spans(epoch * m, m, spans)};
        for (size_t i = 0; i < set.count; i++)
            add_units(order, &spans[i], expected);
        tally_all(tally, &set, counts);
        assert_memory_equal(counts, expected, sizeof(counts));
    }
    tally_free(tally);
}

static void test_any_spans_of_any_design(void **unused)
{
    char folder[256];
    (void)unused;
    srand((unsigned)unit_seed());
    unit_folder_make(folder);
    struct frame *frame = design_frame(folder, UNITS);
    assert_int_equal(frame_labels(frame), FRAME_LABELS);
    for (size_t i = 0; i < DESIGN_CASES; i++) {
        struct order *order = design_order(frame, &design_cases[i], 5 + i);
        check_any_spans(frame, order);
        order_free(order);
    }
    frame_free(frame);
    unit_folder_remove(folder);
}

/* More look-ups in closed form than are made: the tally starts from the closed form and counts
 * what is not in the set. */
static void test_many_labels_and_spans(void **unused)
{
    enum { LABELS = 5000, MANY = 200, M = 50000 };
    static struct interval spans[MANY];
    static int64_t expected[LABELS];
    static int64_t counts[LABELS];
    struct frame *frame;
    struct order *order;
    struct tally *tally;
    (void)unused;
    assert_ok(frame_build("range:50000?labels=5000", &frame));
    assert_ok(order_new(frame, &(struct design){.name = "proportional", .seed = 3}, &order));
    assert_ok(tally_new(frame, order, &tally));
    for (int64_t step = 0; step < 3; step++) {
        memset(expected, 0, sizeof(expected));
        for (int64_t i = 0; i < MANY; i++) {
            spans[i] = (struct interval){M + 200 * i, M + 200 * i + 190 + step};
            add_units(order, &spans[i], expected);
        }
        const struct tally_set set = {1, spans, MANY};
        assert_false(tally_is_quick(tally, &set));
        tally_all(tally, &set, counts);
        assert_memory_equal(counts, expected, sizeof(counts));
    }
    tally_free(tally);
    order_free(order);
    frame_free(frame);
}

/* ---- what was handed out ------------------------------------------------ */

static void begin(struct stream_unit *unit, int64_t epochs, enum tail tail)
{
    memset(unit, 0, sizeof(*unit));
    unit_folder_make(unit->folder);
    stream_unit_define(unit, epochs, tail);
    stream_unit_open(unit, DURABILITY_PROCESS);
}

static void end(struct stream_unit *unit)
{
    stream_unit_close(unit);
    stream_unit_end(unit);
}

static void draw(struct stream_unit *unit, int64_t size)
{
    struct stream_batch batch;
    assert_ok(unit_draw(unit->stream, size, &batch));
}

static void seek(struct stream_unit *unit, int64_t position)
{
    bool waits;
    assert_ok(stream_seek(unit->stream, position, NULL, &waits));
}

static void assert_drawn(struct stream *stream, int64_t epoch, const struct interval *spans,
                         size_t count)
{
    struct stream_drawn drawn;
    assert_ok(stream_drawn(stream, &drawn));
    assert_int_equal(drawn.epoch, epoch);
    assert_int_equal(drawn.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(drawn.spans[i].begin, spans[i].begin);
        assert_int_equal(drawn.spans[i].end, spans[i].end);
    }
    free(drawn.spans);
}

#define DRAWN(unit, epoch, ...)                                                 \
    assert_drawn((unit)->stream, epoch, (const struct interval[]){__VA_ARGS__}, \
                 sizeof((const struct interval[]){__VA_ARGS__}) / sizeof(struct interval))

/* The same after a restart, from the entries and from a compacted journal. */
static void reopen(struct stream_unit *unit, bool in_order)
{
    if (in_order)
        stream_unit_close(unit);
    else
        stream_unit_drop(unit);
    stream_unit_open(unit, DURABILITY_PROCESS);
}

static enum stream_place_state state_at(struct stream_unit *unit, int64_t position)
{
    struct stream_place place;
    stream_where(unit->stream, position, &place);
    return place.state;
}

static void test_a_seek_hands_nothing_out(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    begin(&unit, 0, TAIL_KEEP);
    assert_drawn(unit.stream, 0, NULL, 0);
    seek(&unit, 500);
    assert_drawn(unit.stream, 0, NULL, 0);
    assert_int_equal(state_at(&unit, 499), PLACE_SKIPPED);
    assert_int_equal(state_at(&unit, 500), PLACE_AHEAD);
    draw(&unit, 10);
    assert_ok(unit_lease(unit.stream, "w", 0, 20, &batch));
    DRAWN(&unit, 0, {500, 530});
    seek(&unit, 600); /* what is leased is withdrawn, and was never done */
    draw(&unit, 5);
    for (int i = 0; i < 2; i++) {
        DRAWN(&unit, 0, {500, 510}, {600, 605});
        assert_int_equal(state_at(&unit, 505), PLACE_DONE);
        assert_int_equal(state_at(&unit, 515), PLACE_SKIPPED);
        reopen(&unit, i == 0);
    }
    seek(&unit, 505); /* what is behind is ahead again */
    DRAWN(&unit, 0, {500, 505});
    assert_int_equal(state_at(&unit, 515), PLACE_AHEAD);
    draw(&unit, 2);
    DRAWN(&unit, 0, {500, 507});
    seek(&unit, 2500);
    assert_drawn(unit.stream, 2, NULL, 0);
    assert_int_equal(state_at(&unit, 506), PLACE_DONE);
    assert_int_equal(state_at(&unit, 1700), PLACE_SKIPPED);
    end(&unit);
}

static void test_an_end_is_the_last_epoch(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    begin(&unit, 2, TAIL_KEEP);
    draw(&unit, 1000);
    assert_drawn(unit.stream, 1, NULL, 0); /* at position M the stream is in epoch 1 */
    draw(&unit, 1000);
    DRAWN(&unit, 1, {1000, 2000});
    seek(&unit, 1990);
    seek(&unit, 2000);
    DRAWN(&unit, 1, {1000, 1990});
    end(&unit);
}

static void test_what_a_tail_drops_was_not_drawn(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    begin(&unit, 2, TAIL_DROP);
    for (int i = 0; i < 4; i++)
        draw(&unit, 300);
    DRAWN(&unit, 1, {1000, 1300});
    assert_int_equal(state_at(&unit, 899), PLACE_DONE);
    assert_int_equal(state_at(&unit, 900), PLACE_SKIPPED);
    assert_int_equal(state_at(&unit, 999), PLACE_SKIPPED);
    draw(&unit, 600);
    assert_int_equal(unit_draw(unit.stream, 300, &batch), ERROR_END);
    DRAWN(&unit, 1, {1000, 1900});
    reopen(&unit, false);
    DRAWN(&unit, 1, {1000, 1900});
    assert_int_equal(state_at(&unit, 950), PLACE_SKIPPED);
    end(&unit);
}

static void test_gaps_are_not_drawn_yet(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    char *token;
    bool waits;
    begin(&unit, 0, TAIL_KEEP);
    draw(&unit, 10);
    assert_ok(unit_lease(unit.stream, "w", 0, 20, &batch));
    draw(&unit, 10);
    DRAWN(&unit, 0, {0, 40});
    assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
    assert_ok(stream_restore(unit.stream, token, NULL, &waits));
    free(token);
    DRAWN(&unit, 0, {0, 10}, {30, 40});
    assert_int_equal(state_at(&unit, 15), PLACE_AHEAD);
    draw(&unit, 5);
    DRAWN(&unit, 0, {0, 15}, {30, 40});
    seek(&unit, 35); /* gaps that a seek leaves behind never come */
    DRAWN(&unit, 0, {0, 15}, {30, 35});
    assert_int_equal(state_at(&unit, 20), PLACE_SKIPPED);
    end(&unit);
}

/* The ledger keeps LEDGER_SKIPPED_LIMIT spans; the lowest are forgotten. */
static void test_spans_passed_over_are_bounded(void **unused)
{
    (void)unused;
    struct ledger ledger;
    ledger_init(&ledger);
    assert_ok(ledger_begin(&ledger, 1));
    struct entry entry = {.type = ENTRY_DRAW, .positions = 1, .units = 1, .worker = -1};
    for (int64_t i = 0; i < LEDGER_SKIPPED_LIMIT + 10; i++) {
        entry.first = ledger.position + 1;
        assert_ok(ledger_check(&ledger, &entry));
        assert_ok(ledger_prepare(&ledger, &entry));
        ledger_apply(&ledger, &entry, 0);
    }
    assert_int_equal(ledger.skipped.count, LEDGER_SKIPPED_LIMIT);
    assert_true(intervals_has(&ledger.skipped, ledger.position - 2));
    assert_false(intervals_has(&ledger.skipped, 0));
    entry = (struct entry){.type = ENTRY_SEEK, .worker = -1, .value = ledger.position + 100};
    assert_ok(ledger_prepare(&ledger, &entry));
    ledger_apply(&ledger, &entry, 0);
    assert_int_equal(ledger.skipped.count, LEDGER_SKIPPED_LIMIT);
    ledger_release(&ledger);
}

/* ---- what the live page shows ------------------------------------------- */

static cJSON *balance_of(int labels)
{
    char uri[64];
    struct stream_unit unit = {.frames = NULL};
    struct label_counter *counter;
    struct label_counts counts;
    struct buffer text = BUFFER_INIT(1 << 20);
    cJSON *json;
    snprintf(uri, sizeof(uri), "range:1000?labels=%d", labels);
    stream_unit_define(&unit, 0, TAIL_KEEP);
    assert_ok(frame_set_new(&unit.frames));
    assert_ok(frame_set_add(unit.frames, "default", uri, NULL));
    stream_unit_open(&unit, DURABILITY_NONE);
    assert_ok(label_counter_new(unit.streams, &counter));
    assert_ok(label_counter_ask(counter, unit.stream, INT64_MAX, &counts));
    assert_ok(label_balance_write(stream_plan(unit.stream), &counts, NULL, 0, &text));
    assert_ok(json_parse(text.data, text.length, "the balance", &json));
    free(counts.drawn);
    buffer_release(&text);
    label_counter_free(counter);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
    return json;
}

static void check_balance(int labels, int rows, int worst)
{
    cJSON *json = balance_of(labels);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "rows")), rows);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "worst")), worst);
    cJSON_Delete(json);
}

static void test_the_page_lists_as_many_labels_as_it_has_room_for(void **unused)
{
    (void)unused;
    check_balance(BALANCE_ALL, BALANCE_ALL, 0);
    check_balance(BALANCE_ALL + 1, BALANCE_LARGEST, BALANCE_WORST);
}

/* ---- the thread that counts --------------------------------------------- */

static void begin_large(struct stream_unit *unit)
{
    memset(unit, 0, sizeof(*unit));
    stream_unit_define(unit, 0, TAIL_KEEP);
    assert_ok(frame_set_new(&unit->frames));
    assert_ok(frame_set_add(unit->frames, "default", "range:40000000?labels=10", NULL));
    stream_unit_open(unit, DURABILITY_NONE);
}

static void ask(struct label_counter *counter, struct stream *stream, int64_t *ret_left,
                int64_t *ret_sum)
{
    struct label_counts counts;
    assert_ok(label_counter_ask(counter, stream, 0, &counts));
    *ret_left = counts.left;
    *ret_sum = 0;
    for (int i = 0; i < 10; i++)
        *ret_sum += counts.drawn[i];
    free(counts.drawn);
}

static void test_the_thread_counts_on(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct label_counter *counter;
    int64_t left;
    int64_t sum;
    begin_large(&unit);
    assert_ok(label_counter_new(unit.streams, &counter));
    for (int i = 0; i < 12; i++)
        assert_ok(unit_draw(unit.stream, 1000000, &batch));
    assert_false(label_counter_is_quick(unit.stream));
    ask(counter, unit.stream, &left, &sum);
    assert_true(left > 0);
    int64_t before = left;
    for (int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
         left > 0 && clock_left_ms(deadline_ns) > 0; before = left) {
        clock_sleep_ms(50);
        ask(counter, unit.stream, &left, &sum);
        assert_true(left < before);
    }
    assert_int_equal(left, 0);
    assert_int_equal(sum, 12000000);
    label_counter_free(counter);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static struct stream *create(struct stream_unit *unit, const char *name)
{
    struct stream_definition definition = unit->definition;
    struct sampling_plan *plan;
    struct stream *stream;
    bool waits;
    snprintf(definition.name, sizeof(definition.name), "%s", name);
    assert_ok(sampling_plan_open(unit->frames, NULL, &definition, &plan));
    assert_ok(streams_create(unit->streams, &definition, plan, 0, NULL, &stream, &waits));
    return stream;
}

/* As many streams as are followed, with long names; then one more. */
static struct stream *one_too_many(struct stream_unit *unit, struct label_counter *counter)
{
    struct stream_batch batch;
    int64_t left;
    int64_t sum;
    for (int i = 0; i < LABEL_COUNTER_STREAMS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "a-stream-of-many-%d", i);
        struct stream *stream = create(unit, name);
        assert_ok(unit_draw(stream, 1, &batch));
        ask(counter, stream, &left, &sum);
        stream_put(stream);
    }
    return create(unit, "one");
}

/* Thirteen questions, with longer and longer pauses, get a fraction counted by themselves. */
static void test_the_thread_follows_who_asked_last(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct label_counter *counter;
    int64_t left = 1;
    int64_t sum = 0;
    begin_large(&unit);
    assert_ok(label_counter_new(unit.streams, &counter));
    struct stream *stream = one_too_many(&unit, counter);
    for (int i = 0; i < 12; i++)
        assert_ok(unit_draw(stream, 1000000, &batch));
    for (int tries = 0; tries < 13 && left > 0; tries++) {
        ask(counter, stream, &left, &sum);
        if (left > 0)
            clock_sleep_ms(100 << tries);
    }
    assert_int_equal(left, 0);
    assert_int_equal(sum, 12000000);
    label_counter_free(counter);
    stream_put(stream);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_its_end_ends_the_counting(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct label_counter *counter;
    struct stream_batch batch;
    int64_t left;
    int64_t sum;
    begin_large(&unit);
    assert_ok(label_counter_new(unit.streams, &counter));
    for (int i = 0; i < 19; i++)
        assert_ok(unit_draw(unit.stream, 1000000, &batch));
    ask(counter, unit.stream, &left, &sum);
    assert_true(left > 0);
    label_counter_free(counter);
    label_counter_free(NULL);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_any_spans_of_any_design),
    cmocka_unit_test(test_many_labels_and_spans),
    cmocka_unit_test(test_a_seek_hands_nothing_out),
    cmocka_unit_test(test_an_end_is_the_last_epoch),
    cmocka_unit_test(test_what_a_tail_drops_was_not_drawn),
    cmocka_unit_test(test_gaps_are_not_drawn_yet),
    cmocka_unit_test(test_spans_passed_over_are_bounded),
    cmocka_unit_test(test_the_page_lists_as_many_labels_as_it_has_room_for),
    cmocka_unit_test(test_the_thread_counts_on),
    cmocka_unit_test(test_the_thread_follows_who_asked_last),
    cmocka_unit_test(test_its_end_ends_the_counting),
};

UNIT_MAIN(tests)
