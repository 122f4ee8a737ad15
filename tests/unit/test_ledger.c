/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/ledger/ledger: The ledger against a naive model, by random requests; and against
 * itself: whoever applies the same entries, or those of ledger_write(), has the same ledger.
 */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include "sampler/ledger/conflicts.h"
#include "sampler/ledger/ledger.h"
#include "sampler/ledger/ledger_plan.h"

#define EPOCH 97
#define EPOCHS 4
#define POSITIONS (EPOCH * EPOCHS)
#define WORKERS 4
#define SEQS 64
#define LEASE_MS 1000

/* ---- ledgers as bytes --------------------------------------------------- */

struct bytes {
    uint8_t *items;
    size_t length, capacity;
};

static enum error add_bytes(void *context, const struct entry *entry)
{
    struct bytes *bytes = context;
    size_t bound = entry_bound_bytes(entry);
    if (bytes->length + bound > bytes->capacity) {
        bytes->capacity = 2 * (bytes->length + bound);
        bytes->items = realloc(bytes->items, bytes->capacity);
        assert_non_null(bytes->items);
    }
    bytes->length += entry_encode(entry, bytes->items + bytes->length);
    return OK;
}

static void assert_same_ledger(const struct ledger *a, const struct ledger *b)
{
    struct bytes first = {0};
    struct bytes second = {0};
    assert_ok(ledger_write(a, 0, add_bytes, &first));
    assert_ok(ledger_write(b, 0, add_bytes, &second));
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.items, second.items, first.length);
    free(first.items);
    free(second.items);
}

static void apply(struct ledger *ledger, const struct entry *entry, int64_t now_ms)
{
    assert_ok(ledger_check(ledger, entry));
    assert_ok(ledger_prepare(ledger, entry));
    ledger_apply(ledger, entry, now_ms);
}

static enum error apply_to_copy(void *context, const struct entry *entry)
{
    apply(context, entry, 0);
    return OK;
}

/* ---- the model: what every position and every pair is ------------------- */

enum place { AHEAD, LEASED, EXPIRED, RELEASED, DONE, SKIPPED };
enum pair { NEVER, MINE, LOST, ACKED };

struct model_batch {
    int64_t first, size;
    enum place place;
    int worker; /* of LEASED and EXPIRED */
    int64_t seq, attempt, deadline_ms, asked;
    int64_t queued; /* of EXPIRED and RELEASED: the order in which they wait */
};

struct model {
    enum place places[POSITIONS];
    enum pair pairs[WORKERS][SEQS];
    struct model_batch batches[POSITIONS];
    size_t count;
    int64_t position;
    bool paused;
    int64_t acked, queue;
    int64_t now_ms;
};

static struct model_batch *batch_of(struct model *model, int worker, int64_t seq)
{
    for (size_t i = 0; i < model->count; i++) {
        struct model_batch *batch = &model->batches[i];
        if ((batch->place == LEASED || batch->place == EXPIRED) && batch->worker == worker &&
            batch->seq == seq)
            return batch;
    }
    return NULL;
}

static void set_places(struct model *model, const struct model_batch *batch)
{
    for (int64_t i = 0; i < batch->size; i++)
        model->places[batch->first + i] = batch->place;
}

static void drop_done(struct model *model)
{
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (model->batches[i].place != DONE)
            model->batches[kept++] = model->batches[i];
    }
    model->count = kept;
}

/* Batches expire in the order of their deadlines, those of one moment in any. */
static void model_expire(struct model *model)
{
    for (;;) {
        struct model_batch *next = NULL;
        for (size_t i = 0; i < model->count; i++) {
            struct model_batch *batch = &model->batches[i];
            if (batch->place == LEASED && batch->deadline_ms <= model->now_ms &&
                (!next || batch->deadline_ms < next->deadline_ms))
                next = batch;
        }
        if (!next)
            return;
        next->place = EXPIRED;
        next->queued = model->queue++;
        set_places(model, next);
    }
}

static struct model_batch *first_waiting(struct model *model)
{
    struct model_batch *first = NULL;
    for (size_t i = 0; i < model->count; i++) {
        struct model_batch *batch = &model->batches[i];
        if ((batch->place == EXPIRED || batch->place == RELEASED) &&
            (!first || batch->queued < first->queued))
            first = batch;
    }
    return first;
}

static void model_give(struct model *model, struct model_batch *batch, int worker, int64_t seq,
                       int64_t size)
{
    if (batch->place == EXPIRED && !(batch->worker == worker && batch->seq == seq))
        model->pairs[batch->worker][batch->seq] = LOST;
    batch->place = worker < 0 ? DONE : LEASED;
    batch->worker = worker;
    batch->seq = seq;
    batch->asked = size;
    batch->attempt++;
    batch->deadline_ms = model->now_ms + LEASE_MS;
    if (worker < 0)
        model->acked++;
    else
        model->pairs[worker][seq] = MINE;
    set_places(model, batch);
    drop_done(model);
}

/* The first positions that are ahead: a gap ends where something else begins, or the epoch does. */
static bool model_cut(const struct model *model, int64_t size, struct model_batch *batch)
{
    int64_t first = 0;
    while (first < POSITIONS && model->places[first] != AHEAD)
        first++;
    if (first == POSITIONS)
        return false;
    int64_t count = 0;
    while (count < size && first + count < POSITIONS && model->places[first + count] == AHEAD &&
           (count == 0 || (first + count) % EPOCH != 0) &&
           (first >= model->position || first + count < model->position))
        count++;
    *batch = (struct model_batch){.first = first, .size = count, .place = AHEAD};
    return true;
}

/* ---- both, step by step ------------------------------------------------- */

struct pair_of_ledgers {
    struct ledger ledger;
    struct ledger replayed; /* from the entries alone, without the clock */
    struct model model;
    struct batching batching;
};

static void change(struct pair_of_ledgers *ledgers, const struct entry *entry)
{
    uint8_t bytes[4096];
    struct entry_numbers numbers = {0};
    struct entry again;
    apply(&ledgers->ledger, entry, ledgers->model.now_ms);
    size_t length = entry_encode(entry, bytes);
    assert_ok(entry_decode(bytes, length, &numbers, &again));
    apply(&ledgers->replayed, &again, 0);
    entry_numbers_release(&numbers);
    assert_same_ledger(&ledgers->ledger, &ledgers->replayed);
}

static void name_of(int worker, char out[WORKER_NAME_BYTES])
{
    snprintf(out, WORKER_NAME_BYTES, "w%d", worker);
}

/* Workers get numbers as they come. */
static int64_t number_of(struct pair_of_ledgers *ledgers, int worker)
{
    char name[WORKER_NAME_BYTES];
    name_of(worker, name);
    uint32_t number = worker_table_find(&ledgers->ledger.workers, name);
    if (number != WORKER_NONE)
        return number;
    struct entry entry = {
        .type = ENTRY_WORKER, .worker = -1, .text = name, .text_bytes = strlen(name)};
    change(ledgers, &entry);
    return (int64_t)ledgers->ledger.workers.count - 1;
}

static void check_plan(struct pair_of_ledgers *ledgers, const struct ledger_plan *plan, int worker,
                       int64_t seq, int64_t size)
{
    struct model *model = &ledgers->model;
    struct model_batch *batch = worker >= 0 ? batch_of(model, worker, seq) : NULL;
    struct model_batch new_one;
    if (batch && batch->place == LEASED) {
        assert_int_equal(plan->kind, PLAN_KEPT);
        assert_int_equal(plan->span.first, batch->first);
        assert_int_equal(plan->attempt, batch->attempt);
        assert_int_equal(plan->expires_ms, batch->deadline_ms - model->now_ms);
        return;
    }
    if (!batch)
        batch = first_waiting(model);
    if (batch) {
        assert_int_equal(plan->kind, PLAN_REDELIVER);
        assert_int_equal(plan->span.first, batch->first);
        assert_int_equal(plan->span.units, batch->size);
        assert_int_equal(plan->attempt, batch->attempt + 1);
        return;
    }
    assert_true(model_cut(model, size, &new_one));
    assert_int_equal(plan->kind, new_one.first < model->position ? PLAN_PIECE : PLAN_NEW);
    assert_int_equal(plan->span.first, new_one.first);
    assert_int_equal(plan->span.units, new_one.size);
}

static void take(struct pair_of_ledgers *ledgers, const struct ledger_plan *plan, int worker,
                 int64_t seq, int64_t size)
{
    struct model *model = &ledgers->model;
    if (plan->kind == PLAN_KEPT)
        return;
    struct entry entry = {
        .type = plan->kind == PLAN_REDELIVER ? ENTRY_REDRAW : ENTRY_DRAW,
        .first = plan->span.first,
        .worker = worker < 0 ? -1 : number_of(ledgers, worker),
        .seq = worker < 0 ? 0 : seq,
        .asked = worker < 0 ? 0 : size,
    };
    if (plan->kind != PLAN_REDELIVER)
        entry.positions = entry.units = plan->span.units;
    change(ledgers, &entry);
    if (plan->kind == PLAN_REDELIVER) {
        struct model_batch *batch = worker >= 0 ? batch_of(model, worker, seq) : NULL;
        model_give(model, batch ? batch : first_waiting(model), worker, seq, size);
        return;
    }
    struct model_batch *batch = &model->batches[model->count++];
    assert_true(model_cut(model, size, batch));
    if (batch->first >= model->position)
        model->position = batch->first + batch->size;
    model_give(model, batch, worker, seq, size);
}

static void step_draw(struct pair_of_ledgers *ledgers)
{
    struct model *model = &ledgers->model;
    int worker = rand() % (WORKERS + 1) - 1;
    int64_t seq = rand() % SEQS;
    int64_t size = 1 + rand() % 3 * 10;
    char name[WORKER_NAME_BYTES];
    struct ledger_plan plan;
    struct batching_search search = {.size = 0};
    if (worker >= 0)
        name_of(worker, name);
    model_expire(model);
    struct ledger_pull pull = {.worker = worker < 0 ? NULL : name, .seq = seq, .size = size};
    enum error error =
        ledger_plan_draw(&ledgers->ledger, &ledgers->batching, &search, &pull,
                         ledger_worker(&ledgers->ledger, pull.worker), model->now_ms, &plan);
    enum pair pair = worker < 0 ? NEVER : model->pairs[worker][seq];
    struct model_batch *mine = worker < 0 ? NULL : batch_of(model, worker, seq);
    struct model_batch new_one;
    bool over = model->count == 0 && !model_cut(model, size, &new_one);
    if ((model->paused && !mine && !over) || pair == ACKED || pair == LOST ||
        (mine && mine->asked != size)) {
        assert_int_equal(error, ERROR_CONFLICT);
        const char *kind = pair == ACKED  ? PROBLEM_PAIR_ACKED
                           : pair == LOST ? PROBLEM_PAIR_LOST
                           : mine         ? PROBLEM_OTHER_SIZE
                                          : PROBLEM_PAUSED;
        assert_string_equal(error_kind(), kind);
        return;
    }
    if (!mine && !first_waiting(model) && !model_cut(model, size, &new_one)) {
        if (model->count > 0)
            assert_int_equal(error, ERROR_TIMEOUT);
        else
            assert_true(!error && plan.kind == PLAN_END);
        return;
    }
    assert_ok(error);
    check_plan(ledgers, &plan, worker, seq, size);
    take(ledgers, &plan, worker, seq, size);
}

static void step_ack(struct pair_of_ledgers *ledgers)
{
    struct model *model = &ledgers->model;
    int worker = rand() % WORKERS;
    int64_t seqs[3];
    size_t count = 1 + (size_t)(rand() % 3);
    char name[WORKER_NAME_BYTES];
    size_t live;
    int64_t mean_ms;
    bool all = true;
    name_of(worker, name);
    model_expire(model);
    for (size_t i = 0; i < count; i++) {
        seqs[i] = rand() % SEQS;
        enum pair pair = model->pairs[worker][seqs[i]];
        all = all && (pair == MINE || pair == ACKED);
    }
    struct ledger_pull pull = {.worker = name, .acks = seqs, .ack_count = count};
    enum error error =
        ledger_plan_acks(&ledgers->ledger, &pull, ledger_worker(&ledgers->ledger, name),
                         model->now_ms, &live, &mean_ms);
    assert_int_equal(error, all ? OK : ERROR_CONFLICT);
    if (!all || live == 0)
        return;
    struct entry entry = {.type = ENTRY_ACK,
                          .worker = number_of(ledgers, worker),
                          .list = seqs,
                          .count = count,
                          .value = mean_ms};
    change(ledgers, &entry);
    for (size_t i = 0; i < count; i++) {
        struct model_batch *batch = batch_of(model, worker, seqs[i]);
        if (!batch)
            continue;
        model->pairs[worker][seqs[i]] = ACKED;
        batch->place = DONE;
        model->acked++;
        set_places(model, batch);
        drop_done(model);
    }
}

static void step_release(struct pair_of_ledgers *ledgers)
{
    struct model *model = &ledgers->model;
    int worker = rand() % WORKERS;
    struct entry entry = {.type = ENTRY_RELEASE, .worker = number_of(ledgers, worker)};
    model_expire(model);
    ledger_expire(&ledgers->ledger, model->now_ms);
    /* The order of those that are released is the order in which they were leased: take them as the
     * book has them. */
    struct worker_record *record =
        worker_table_get(&ledgers->ledger.workers, (uint32_t)entry.worker);
    for (uint32_t number = record->leases.first; number != LEASE_NONE;) {
        const struct lease *lease = lease_set_get(&ledgers->ledger.leases, number);
        struct model_batch *batch = batch_of(model, worker, lease->seq);
        assert_non_null(batch);
        model->pairs[worker][lease->seq] = LOST;
        batch->queued = model->queue++; /* what ran out before, too, goes to the queue's end */
        batch->place = RELEASED;
        set_places(model, batch);
        number = lease->links[LEASE_WORKER].after;
    }
    change(ledgers, &entry);
}

static void forget_leases(struct model *model, enum pair left)
{
    for (int worker = 0; worker < WORKERS; worker++) {
        for (int seq = 0; seq < SEQS; seq++) {
            if (left == NEVER || model->pairs[worker][seq] == MINE)
                model->pairs[worker][seq] = left;
        }
    }
    model->count = 0;
}

static void step_seek(struct pair_of_ledgers *ledgers)
{
    struct model *model = &ledgers->model;
    struct entry entry = {.type = ENTRY_SEEK, .worker = -1, .value = rand() % POSITIONS};
    change(ledgers, &entry);
    forget_leases(model, LOST);
    model->position = entry.value;
    for (int64_t i = 0; i < POSITIONS; i++)
        if (i >= entry.value)
            model->places[i] = AHEAD;
        else if (model->places[i] != DONE)
            model->places[i] = SKIPPED;
}

static void step_restore(struct pair_of_ledgers *ledgers)
{
    struct model *model = &ledgers->model;
    int64_t list[] = {5, 20, 90, 130, 200, 201};
    int64_t position = 201 + rand() % (POSITIONS - 201);
    struct entry entry = {
        .type = ENTRY_RESTORE, .worker = -1, .value = position, .list = list, .count = 6};
    change(ledgers, &entry);
    forget_leases(model, NEVER);
    model->position = position;
    for (int64_t i = 0; i < POSITIONS; i++)
        model->places[i] = i < position ? DONE : AHEAD;
    for (size_t gap = 0; gap < 6; gap += 2) {
        for (int64_t i = list[gap]; i < list[gap + 1]; i++)
            model->places[i] = AHEAD;
    }
}

static void check_places(struct pair_of_ledgers *ledgers)
{
    const struct model *model = &ledgers->model;
    const struct ledger *ledger = &ledgers->ledger;
    for (int64_t i = 0; i < POSITIONS; i++) {
        bool held = lease_set_at(&ledger->leases, i) != LEASE_NONE;
        bool ahead = !held && (i >= ledger->position || intervals_has(&ledger->gaps, i));
        assert_int_equal(held, model->places[i] == LEASED || model->places[i] == EXPIRED ||
                                   model->places[i] == RELEASED);
        assert_int_equal(ahead, model->places[i] == AHEAD);
        assert_int_equal(intervals_has(&ledger->skipped, i), model->places[i] == SKIPPED);
    }
    assert_int_equal(ledger->position, model->position);
    assert_int_equal(ledger->acked, model->acked);
    assert_int_equal(ledger->leases.count, model->count);
}

static void step(struct pair_of_ledgers *ledgers)
{
    int what = rand() % 100;
    ledgers->model.now_ms += 1 + rand() % 90;
    if (what < 55)
        step_draw(ledgers);
    else if (what < 85)
        step_ack(ledgers);
    else if (what < 91)
        step_release(ledgers);
    else if (what < 92)
        step_seek(ledgers);
    else if (what < 93)
        step_restore(ledgers);
    else if (what < 97) {
        bool pause = what < 95;
        change(ledgers, &(struct entry){.type = pause ? ENTRY_PAUSE : ENTRY_RESUME, .worker = -1});
        ledgers->model.paused = pause;
    }
    check_places(ledgers);
}

static void test_the_book_is_what_the_model_says(void **unused)
{
    (void)unused;
    int rounds = unit_is_long() ? 400 : 40;
    static struct pair_of_ledgers ledgers;
    for (int round = 0; round < rounds; round++) {
        srand((unsigned)unit_seed() + (unsigned)round);
        memset(&ledgers, 0, sizeof(ledgers));
        ledger_init(&ledgers.ledger);
        ledger_init(&ledgers.replayed);
        ledgers.ledger.lease_ms = ledgers.replayed.lease_ms = LEASE_MS;
        ledgers.batching =
            (struct batching){.epoch_positions = EPOCH, .epochs = EPOCHS, .tail = TAIL_KEEP};
        for (int i = 0; i < 250; i++)
            step(&ledgers);
        struct ledger copy; /* as a compaction makes it */
        ledger_init(&copy);
        assert_ok(ledger_write(&ledgers.ledger, 0, apply_to_copy, &copy));
        assert_same_ledger(&ledgers.ledger, &copy);
        ledger_release(&copy);
        ledger_release(&ledgers.ledger);
        ledger_release(&ledgers.replayed);
    }
}

/* ---- what goes back ----------------------------------------------------- */

static void test_draws_that_nobody_heard_of_go_back(void **unused)
{
    (void)unused;
    struct ledger ledger;
    ledger_init(&ledger);
    struct entry draw = {.type = ENTRY_DRAW, .positions = 10, .units = 10, .worker = -1};
    for (int64_t i = 0; i < 3; i++) {
        draw.first = 10 * i;
        apply(&ledger, &draw, 0);
    }
    struct entry back = {
        .type = ENTRY_UNDO_DRAW, .first = 20, .positions = 10, .units = 10, .worker = -1};
    apply(&ledger, &back, 0);
    assert_int_equal(ledger.position, 20);
    back.first = 0;
    apply(&ledger, &back, 0); /* not the last one: a gap */
    assert_int_equal(ledger.position, 20);
    assert_true(intervals_has(&ledger.gaps, 0) && !intervals_has(&ledger.gaps, 10));
    assert_int_equal(ledger.acked, 1);
    back.first = 10;
    back.attempt = 2; /* somebody had it before: it stays one batch */
    apply(&ledger, &back, 0);
    uint32_t waiting = lease_set_waiting(&ledger.leases);
    assert_int_equal(lease_set_get(&ledger.leases, waiting)->first, 10);
    assert_int_equal(lease_set_get(&ledger.leases, waiting)->attempt, 2);
    ledger_release(&ledger);
}

/* ---- very many ---------------------------------------------------------- */

static void test_a_million_leases(void **unused)
{
    (void)unused;
    const int64_t count = unit_is_long() ? 1000000 : 100000;
    struct ledger ledger;
    ledger_init(&ledger);
    ledger.lease_ms = LEASE_MS;
    apply(&ledger,
          &(struct entry){.type = ENTRY_WORKER, .worker = -1, .text = "w", .text_bytes = 1}, 0);
    for (int64_t i = 0; i < count; i++)
        apply(&ledger,
              &(struct entry){.type = ENTRY_DRAW,
                              .first = 100 * i,
                              .positions = 100,
                              .units = 100,
                              .worker = 0,
                              .seq = i,
                              .asked = 100},
              i);
    assert_int_equal(ledger.leases.heap_count, count);
    for (int64_t i = 0; i < count; i += 2)
        apply(&ledger, &(struct entry){.type = ENTRY_ACK, .worker = 0, .list = &i, .count = 1}, i);
    assert_int_equal(ledger.leases.heap_count, count / 2);
    assert_true(lease_set_at(&ledger.leases, 150) != LEASE_NONE);
    assert_true(lease_set_at(&ledger.leases, 250) == LEASE_NONE);
    int64_t now_ms = count + LEASE_MS;
    while (ledger.leases.heap_count > 0)
        ledger_expire(&ledger, now_ms);
    int64_t first = -1;
    for (int64_t i = 0; i < count / 2; i++) { /* in the order of their deadlines */
        uint32_t number = lease_set_waiting(&ledger.leases);
        assert_true(lease_set_get(&ledger.leases, number)->first > first);
        first = lease_set_get(&ledger.leases, number)->first;
        apply(&ledger, &(struct entry){.type = ENTRY_REDRAW, .first = first, .worker = -1}, now_ms);
    }
    assert_int_equal(ledger.acked, count);
    assert_int_equal(ledger.leases.count, 0);
    ledger_release(&ledger);
}

/* ---- the deadline that adapts itself ------------------------------------ */

static void lease_and_ack(struct ledger *ledger, int64_t seq, int64_t held_ms, int64_t *now_ms)
{
    size_t live;
    int64_t mean_ms;
    apply(ledger,
          &(struct entry){.type = ENTRY_DRAW,
                          .first = ledger->position,
                          .positions = 1,
                          .units = 1,
                          .worker = 0,
                          .seq = seq,
                          .asked = 1},
          *now_ms);
    *now_ms += held_ms;
    struct ledger_pull pull = {.worker = "w", .acks = &seq, .ack_count = 1};
    assert_ok(ledger_plan_acks(ledger, &pull, 0, *now_ms, &live, &mean_ms));
    apply(
        ledger,
        &(struct entry){.type = ENTRY_ACK, .worker = 0, .list = &seq, .count = 1, .value = mean_ms},
        *now_ms);
}

static void test_the_lease_adapts_itself(void **unused)
{
    (void)unused;
    struct ledger ledger;
    int64_t now_ms = 0;
    int64_t seq = 0;
    ledger_init(&ledger);
    apply(&ledger,
          &(struct entry){.type = ENTRY_WORKER, .worker = -1, .text = "w", .text_bytes = 1}, 0);
    assert_int_equal(ledger_lease_ms(&ledger), LEDGER_LEASE_LEAST_MS);
    lease_and_ack(&ledger, seq++, 1000, &now_ms);
    assert_int_equal(ledger_lease_ms(&ledger), LEDGER_LEASE_LEAST_MS);
    for (int i = 0; i < 200; i++)
        lease_and_ack(&ledger, seq++, 60000, &now_ms);
    assert_in_range(ledger_lease_ms(&ledger), 119000, 121000);
    for (int i = 0; i < 200; i++)
        lease_and_ack(&ledger, seq++, 7200000, &now_ms);
    assert_int_equal(ledger_lease_ms(&ledger), LEDGER_LEASE_MOST_MS);
    ledger.lease_ms = 5;
    assert_int_equal(ledger_lease_ms(&ledger), 5);
    ledger_release(&ledger);
}

/* ---- time after a restart ----------------------------------------------- */

static struct ledger ledger_of(int64_t lease_ms, const char *worker)
{
    struct ledger ledger;
    ledger_init(&ledger);
    ledger.lease_ms = lease_ms;
    apply(&ledger,
          &(struct entry){
              .type = ENTRY_WORKER, .worker = -1, .text = worker, .text_bytes = strlen(worker)},
          0);
    return ledger;
}

static void lease_batch(struct ledger *ledger, int64_t first, int64_t seq, int64_t now_ms)
{
    apply(ledger,
          &(struct entry){.type = ENTRY_DRAW,
                          .first = first,
                          .positions = 10,
                          .units = 10,
                          .worker = 0,
                          .seq = seq,
                          .asked = 10},
          now_ms);
}

/* Since when a batch is held is not in the journal: a batch from before the restart says nothing of
 * how long batches are held, whether it is acked or expires. */
static void test_what_was_leased_before_a_restart_is_no_sample(void **unused)
{
    (void)unused;
    const int64_t started_ms = 5000000;
    struct ledger ledger = ledger_of(0, "w");
    lease_batch(&ledger, 0, 0, 0);
    lease_batch(&ledger, 10, 1, 0);
    ledger_start(&ledger, started_ms);
    size_t live;
    int64_t mean_ms, seq = 0;
    struct ledger_pull pull = {.worker = "w", .acks = &seq, .ack_count = 1};
    assert_ok(ledger_plan_acks(&ledger, &pull, 0, started_ms + 10, &live, &mean_ms));
    assert_int_equal(live, 1);
    assert_int_equal(mean_ms, 0);
    ledger_expire(&ledger, started_ms + LEDGER_LEASE_LEAST_MS - 1);
    assert_int_equal(ledger.leases.heap_count, 2); /* a whole lease from the restart on */
    struct ledger_plan plan;
    struct batching batching = {.epoch_positions = 100};
    struct batching_search search = {.size = 0};
    struct ledger_pull draw = {.size = 10};
    assert_ok(ledger_plan_draw(&ledger, &batching, &search, &draw, WORKER_NONE,
                               started_ms + LEDGER_LEASE_LEAST_MS, &plan));
    assert_int_equal(plan.kind, PLAN_REDELIVER);
    assert_int_equal(plan.mean_ms, 0);
    ledger_release(&ledger);
}

/* Workers that hold their batches longer than the lease would redeliver for ever: each batch that
 * expired makes the next lease longer. */
static void test_a_lease_that_expired_makes_leases_longer(void **unused)
{
    (void)unused;
    struct ledger ledger = ledger_of(0, "w");
    struct ledger_plan plan;
    struct batching batching = {.epoch_positions = 100};
    struct batching_search search = {.size = 0};
    struct ledger_pull draw = {.size = 10};
    lease_batch(&ledger, 0, 0, 0);
    assert_ok(ledger_plan_draw(&ledger, &batching, &search, &draw, WORKER_NONE, 100000, &plan));
    assert_int_equal(plan.kind, PLAN_REDELIVER);
    assert_int_equal(plan.mean_ms, 100000);
    apply(&ledger,
          &(struct entry){
              .type = ENTRY_REDRAW, .first = plan.span.first, .worker = -1, .value = plan.mean_ms},
          100000);
    assert_int_equal(ledger_lease_ms(&ledger), 200000);
    ledger_release(&ledger);
}

/* ---- expired batches ---------------------------------------------------- */

/* More expire at once than one call takes: the worker's own is redelivered to it, not kept. */
static void test_an_own_batch_that_expired_is_redelivered(void **unused)
{
    (void)unused;
    const int64_t count = LEDGER_EXPIRE_AT_ONCE + 1;
    struct ledger ledger = ledger_of(LEASE_MS, "w");
    struct batching batching = {.epoch_positions = 10000};
    struct batching_search search = {.size = 0};
    struct ledger_plan plan;
    for (int64_t seq = 0; seq < count; seq++)
        lease_batch(&ledger, 10 * seq, seq, seq);
    struct ledger_pull pull = {.worker = "w", .seq = count - 1, .size = 10};
    assert_ok(ledger_plan_draw(&ledger, &batching, &search, &pull, 0, count - 2 + LEASE_MS, &plan));
    assert_int_equal(plan.kind, PLAN_KEPT); /* for one more millisecond */
    assert_int_equal(plan.expires_ms, 1);
    ledger_release(&ledger);
    ledger = ledger_of(LEASE_MS, "w");
    for (int64_t seq = 0; seq < count; seq++)
        lease_batch(&ledger, 10 * seq, seq, seq);
    assert_ok(ledger_plan_draw(&ledger, &batching, &search, &pull, 0, count - 1 + LEASE_MS, &plan));
    assert_int_equal(ledger.leases.heap_count, 1);
    assert_int_equal(plan.kind, PLAN_REDELIVER);
    assert_int_equal(plan.span.first, 10 * (count - 1));
    ledger_release(&ledger);
}

/* A batch that is acked in the same breath as it is asked for again. */
static void test_what_a_pull_acks_it_does_not_get(void **unused)
{
    (void)unused;
    struct ledger ledger = ledger_of(LEASE_MS, "w");
    struct batching batching = {.epoch_positions = 100};
    struct batching_search search = {.size = 0};
    struct ledger_plan plan;
    int64_t seq = 0;
    lease_batch(&ledger, 0, seq, 0);
    struct ledger_pull pull = {.worker = "w", .seq = seq, .size = 10, .acks = &seq, .ack_count = 1};
    assert_fails(ledger_plan_draw(&ledger, &batching, &search, &pull, 0, 0, &plan), ERROR_CONFLICT,
                 "was acked");
    ledger_release(&ledger);
}

/* Beyond that many holes between a worker's seqs, one that makes another hole is refused, and one
 * that follows another is not. */
static void test_seqs_have_so_many_holes(void **unused)
{
    (void)unused;
    struct ledger ledger = ledger_of(LEASE_MS, "w");
    struct batching batching = {.epoch_positions = 1000000};
    struct batching_search search = {.size = 0};
    struct ledger_plan plan;
    for (int64_t i = 0; i < WORKER_SEQS_LIMIT; i++)
        lease_batch(&ledger, 10 * i, 3 * i, 0);
    struct ledger_pull pull = {.worker = "w", .seq = INT64_C(3) * WORKER_SEQS_LIMIT, .size = 10};
    assert_fails(ledger_plan_draw(&ledger, &batching, &search, &pull, 0, 0, &plan), ERROR_MEMORY,
                 "65536 holes");
    pull.seq = 4;
    assert_ok(ledger_plan_draw(&ledger, &batching, &search, &pull, 0, 0, &plan));
    assert_int_equal(plan.kind, PLAN_NEW);
    ledger_release(&ledger);
}

/* Acks are of the worker's own seqs: another worker's batch of that seq is redelivered. */
static void test_acks_do_not_count_for_others(void **unused)
{
    (void)unused;
    struct ledger ledger = ledger_of(LEASE_MS, "a");
    struct batching batching = {.epoch_positions = 100};
    struct batching_search search = {.size = 0};
    struct ledger_plan plan;
    int64_t seq = 0;
    apply(&ledger,
          &(struct entry){.type = ENTRY_WORKER, .worker = -1, .text = "b", .text_bytes = 1}, 0);
    lease_batch(&ledger, 0, 0, 0);
    struct ledger_pull pull = {.worker = "b", .seq = 1, .size = 10, .acks = &seq, .ack_count = 1};
    assert_ok(ledger_plan_draw(&ledger, &batching, &search, &pull, 1, LEASE_MS, &plan));
    assert_int_equal(plan.kind, PLAN_REDELIVER);
    assert_int_equal(plan.span.first, 0);
    ledger_release(&ledger);
}

/* ---- workers whose place another one took ------------------------------- */

static void ack(struct ledger *ledger, int64_t seq)
{
    apply(ledger, &(struct entry){.type = ENTRY_ACK, .worker = 0, .list = &seq, .count = 1}, 0);
}

/* In a compacted journal, too, a batch is not said to be done by whoever has the number now. */
static void test_who_did_what_is_not_passed_on_with_a_number(void **unused)
{
    (void)unused;
    struct ledger ledger = ledger_of(LEASE_MS, "old"), copy;
    lease_batch(&ledger, 0, 0, 0);
    ack(&ledger, 0);
    apply(&ledger, &(struct entry){.type = ENTRY_WORKER, .text = "new", .text_bytes = 3}, 0);
    lease_batch(&ledger, 10, 0, 0);
    ack(&ledger, 0);
    ledger_init(&copy);
    assert_ok(ledger_write(&ledger, 0, apply_to_copy, &copy));
    uint64_t at = LEASE_HISTORY_NEWEST;
    assert_null(lease_history_find(&copy.history, 5, SIZE_MAX, &at));
    assert_int_equal(at, 0);
    at = LEASE_HISTORY_NEWEST;
    const struct lease_done *done = lease_history_find(&copy.history, 15, SIZE_MAX, &at);
    assert_non_null(done);
    assert_string_equal(worker_table_get(&copy.workers, done->worker)->name, "new");
    assert_int_equal(done->attempt, 1);
    at = LEASE_HISTORY_NEWEST;
    assert_null(lease_history_find(&copy.history, 20, SIZE_MAX, &at)); /* right behind it */
    ledger_release(&copy);
    ledger_release(&ledger);
}

/* ---- entries as bytes --------------------------------------------------- */

/* Cut, longer than it says, of a list longer than it is, of no stream's number, of a kind or with
 * fields that there are not, with a number of more than 64 bits. */
static void test_bytes_that_are_no_entry(void **unused)
{
    (void)unused;
    int64_t list[] = {3, 1, 2};
    const struct entry entry = {
        .type = ENTRY_ACK, .stream = 7, .list = list, .count = 3, .text = "w", .text_bytes = 1};
    const uint8_t far[] = {ENTRY_SEEK, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10}; /* stream 2^32 */
    const uint8_t kinds[][4] = {
        {0, 0, 0, 7}, {ENTRY_TYPE_LAST + 1, 0, 0, 7}, {255, 0, 0, 7}, {ENTRY_SEEK, 0, 0x80, 7}};
    struct entry_numbers numbers = {0};
    struct entry again;
    uint8_t bytes[256] = {0};
    size_t length = entry_encode(&entry, bytes);
    assert_ok(entry_decode(bytes, length, &numbers, &again));
    assert_memory_equal(again.list, list, sizeof(list));
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(entry_decode(bytes, cut, &numbers, &again), ERROR_INPUT);
    assert_int_equal(entry_decode(bytes, length + 1, &numbers, &again), ERROR_INPUT);
    bytes[length - 4] = 4; /* what the list says it has */
    assert_fails(entry_decode(bytes, length, &numbers, &again), ERROR_INPUT,
                 "has a list that is longer");
    assert_fails(entry_decode(far, sizeof(far), &numbers, &again), ERROR_INPUT, "out of range");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        assert_fails(entry_decode(kinds[i], sizeof(kinds[i]), &numbers, &again), ERROR_INPUT,
                     "is of a kind unknown to this version");
    uint8_t number[] = {ENTRY_SEEK, 1,    0,    7,    0xff, 0xff, 0xff,
                        0xff,       0xff, 0xff, 0xff, 0xff, 0xff, 1};
    assert_ok(entry_decode(number, sizeof(number), &numbers, &again));
    number[sizeof(number) - 1] = 2;
    assert_fails(entry_decode(number, sizeof(number), &numbers, &again), ERROR_INPUT,
                 "is cut, or longer than it says");
    entry_numbers_release(&numbers);
}

static void test_a_list_may_be_encoded_first(void **unused)
{
    (void)unused;
    int64_t list[] = {3, 1, INT64_MAX, INT64_MIN, 2};
    struct entry entry = {.type = ENTRY_RESTORE, .stream = 7, .value = 9, .list = list, .count = 5};
    uint8_t bytes[256], same[256], *list_bytes;
    size_t bound = entry_bound_bytes(&entry), length = entry_encode(&entry, bytes);
    assert_ok(entry_encode_list(&entry, &list_bytes));
    assert_in_range(entry_bound_bytes(&entry), length,
                    bound - 1); /* it knows how long the list is */
    assert_int_equal(entry_encode(&entry, same), length);
    assert_memory_equal(bytes, same, length);
    free(list_bytes);
}

/* ---- entries that cannot follow ----------------------------------------- */

#define FAR (INT64_C(1) << 62)
#define LEASE(at, span, held, ...)                                                            \
    {                                                                                         \
        .type = ENTRY_LEASE, .first = (at), .positions = (span), .units = (held), __VA_ARGS__ \
    }
#define LIST(...) .list = (int64_t[]){__VA_ARGS__}, .count = sizeof((int64_t[]){__VA_ARGS__}) / 8

/* [0, 10) is leased to worker 0 as seq 3, [10, 20) was acked as its seq 4, [20, 30) waits for
 * anybody, and [30, 50) was drawn without a worker. */
static struct ledger ledger_to_check(void)
{
    struct ledger ledger = ledger_of(LEASE_MS, "w");
    lease_batch(&ledger, 0, 3, 0);
    lease_batch(&ledger, 10, 4, 0);
    ack(&ledger, 4);
    apply(&ledger,
          &(struct entry){
              .type = ENTRY_DRAW, .first = 20, .positions = 30, .units = 30, .worker = -1},
          0);
    apply(&ledger, &(struct entry)LEASE(20, 10, 10, .worker = -1, .attempt = 1), 0);
    return ledger;
}

static void check_all(const struct ledger *ledger, const struct entry *entries, size_t count,
                      enum error expected)
{
    for (size_t i = 0; i < count; i++) {
        enum error error = ledger_check(ledger, &entries[i]);
        if (error != expected)
            fail_msg("entry %zu of kind %d: %d, not %d", i, (int)entries[i].type, error, expected);
    }
}

static void test_entries_that_can_follow(void **unused)
{
    (void)unused;
    const struct entry entries[] = {
        {.type = ENTRY_DRAW, .first = 50, .positions = 1, .units = 1, .worker = -1},
        {.type = ENTRY_DRAW, .first = 60, .worker = -1},         /* the tail skips some */
        {.type = ENTRY_DRAW, .first = 60, .seq = 4, .asked = 9}, /* which is no batch of its seq */
        {.type = ENTRY_DRAW, .first = 50, .positions = 9, .units = 9, .seq = 5, .asked = 9},
        {.type = ENTRY_DRAW, .first = FAR - 1, .positions = FAR - 1, .units = 1, .worker = -1},
        {.type = ENTRY_REDRAW, .first = 0, .worker = -1},
        {.type = ENTRY_REDRAW, .first = 0, .seq = 3, .asked = 10}, /* its own, which expired */
        {.type = ENTRY_REDRAW, .first = 20, .seq = 5, .asked = 10},
        LEASE(40, 10, 10, .worker = -1),
        LEASE(30, 5, 1, .worker = -1),
        LEASE(40, 5, 5, .seq = 5, .asked = 5),
        LEASE(40, 5, 5, .worker = -1, .attempt = INT32_MAX),
        {.type = ENTRY_UNDO_DRAW, .first = 40, .positions = 10, .units = 10, .worker = -1},
        {.type = ENTRY_UNDO_DRAW, .first = 10, .positions = 10, .units = 1, .attempt = INT32_MAX},
        {.type = ENTRY_USED, LIST(0, 1, 3, 9)},
        {.type = ENTRY_SEEK, .value = FAR - 1},
        {.type = ENTRY_RESTORE, .value = 9, LIST(0, 1, 8, 9)},
        {.type = ENTRY_LEDGER, LIST(FAR - 1, 0, 0, 0, 0, 0)},
        {.type = ENTRY_GAPS, LIST(0, 50)},
        {.type = ENTRY_SKIPPED, LIST(0, 50)},
        {.type = ENTRY_DONE, .first = 10, .positions = 10, .units = 10},
        {.type = ENTRY_IDLE, LIST(0)},
        {.type = ENTRY_FORGOTTEN_WORKERS, LIST(1, 1)},
        {.type = ENTRY_WORKER, .worker = -1, .text = "new", .text_bytes = 3},
    };
    struct ledger ledger = ledger_to_check();
    check_all(&ledger, entries, sizeof(entries) / sizeof(entries[0]), OK);
    ledger_release(&ledger);
}

static void test_entries_that_cannot_follow_are_refused(void **unused)
{
    (void)unused;
    const struct entry entries[] = {
        /* draws: of what was drawn; of a pair that has or had a batch; for nobody known */
        {.type = ENTRY_DRAW, .first = 49, .positions = 1, .units = 1, .worker = -1},
        {.type = ENTRY_DRAW, .first = 50, .positions = 1, .units = 2, .worker = -1},
        {.type = ENTRY_DRAW, .first = -1, .positions = 60, .units = 1, .worker = -1},
        {.type = ENTRY_DRAW, .first = FAR, .positions = 1, .units = 1, .worker = -1},
        {.type = ENTRY_DRAW, .first = 50, .positions = FAR, .units = 1, .worker = -1},
        {.type = ENTRY_DRAW, .first = 50, .positions = -1, .units = -1, .worker = -1},
        {.type = ENTRY_DRAW, .first = 50, .positions = 9, .units = 9, .seq = 3, .asked = 9},
        {.type = ENTRY_DRAW, .first = 50, .positions = 9, .units = 9, .seq = 4, .asked = 9},
        {.type = ENTRY_DRAW, .first = 50, .positions = 9, .units = 9, .worker = 1, .asked = 9},
        {.type = ENTRY_DRAW, .first = 50, .positions = 9, .units = 9, .seq = -1, .asked = 9},
        {.type = ENTRY_DRAW, .first = 50, .positions = 9, .units = 9, .seq = 5},
        /* redraws: of what nobody had, or from its middle; for a pair that has or had another */
        {.type = ENTRY_REDRAW, .first = -1, .worker = -1},
        {.type = ENTRY_REDRAW, .first = 10, .worker = -1},
        {.type = ENTRY_REDRAW, .first = 1, .worker = -1},
        {.type = ENTRY_REDRAW, .first = 20, .seq = 3, .asked = 10},
        {.type = ENTRY_REDRAW, .first = 20, .seq = 4, .asked = 10},
        {.type = ENTRY_REDRAW, .first = 0, .seq = 4, .asked = 10},
        {.type = ENTRY_REDRAW, .first = 0, .worker = 1, .asked = 10},
        /* leases: of nothing, of what is ahead, of what is leased, to a pair that has one */
        LEASE(40, 5, 0, .worker = -1),
        LEASE(40, 5, 5, .worker = -1, .attempt = -1),
        LEASE(40, 5, 5, .worker = -1, .attempt = INT64_C(1) << 31),
        LEASE(40, 11, 5, .worker = -1),
        LEASE(40, 5, 6, .worker = -1),
        LEASE(50, 5, 5, .worker = -1),
        LEASE(5, 5, 5, .worker = -1),
        LEASE(19, 2, 1, .worker = -1),
        LEASE(29, 2, 1, .worker = -1),
        LEASE(15, 20, 5, .worker = -1),
        LEASE(40, 5, 5, .seq = 3, .asked = 5),
        LEASE(40, 5, 5, .worker = 1, .asked = 5),
        LEASE(40, 5, 5, .seq = -1, .asked = 5),
        LEASE(40, 5, 5, .seq = 5),
        /* undone: nothing, what was not drawn, what is leased */
        {.type = ENTRY_UNDO_DRAW, .first = 40, .positions = 10, .worker = -1},
        {.type = ENTRY_UNDO_DRAW, .first = 40, .positions = 11, .units = 10, .worker = -1},
        {.type = ENTRY_UNDO_DRAW, .first = 20, .positions = 10, .units = 10, .worker = -1},
        {.type = ENTRY_UNDO_DRAW, .first = 40, .positions = 9, .units = 9, .attempt = -1},
        {.type = ENTRY_UNDO_DRAW,
         .first = 40,
         .positions = 9,
         .units = 9,
         .attempt = INT64_C(1) << 31},
        /* workers that are not known, seqs and positions out of order */
        {.type = ENTRY_ACK, .worker = 1},
        {.type = ENTRY_RELEASE, .worker = -1},
        {.type = ENTRY_USED, .worker = 1, LIST(0, 1)},
        {.type = ENTRY_USED, LIST(0, 1, 1, 2)},
        {.type = ENTRY_ACKED, LIST(0, 0)},
        {.type = ENTRY_ACKED, LIST(-1, 2)},
        {.type = ENTRY_USED, LIST(0)},
        {.type = ENTRY_SEEK, .value = -1},
        {.type = ENTRY_SEEK, .value = FAR},
        {.type = ENTRY_RESTORE, .value = 9, LIST(0, 10)},
        {.type = ENTRY_LEDGER, LIST(FAR, 0, 0, 0, 0, 0)},
        {.type = ENTRY_LEDGER, LIST(-1, 0, 0, 0, 0, 0)},
        {.type = ENTRY_LEDGER, LIST(0, 0, 0, 0, 0)},
        {.type = ENTRY_GAPS, LIST(0, 51)},
        {.type = ENTRY_SKIPPED, LIST(0, 51)},
        {.type = ENTRY_DONE, .first = 10, .positions = 10, .units = 10, .worker = 1},
        {.type = ENTRY_DONE, .first = -1, .positions = 10, .units = 10},
        {.type = ENTRY_IDLE, LIST(1)},
        {.type = ENTRY_IDLE, LIST(0, -1)},
        {.type = ENTRY_FORGOTTEN_WORKERS, LIST(0, 1)},
        {.type = ENTRY_FORGOTTEN_WORKERS, LIST(1, 0)},
        {.type = ENTRY_FORGOTTEN_WORKERS, LIST(1)},
        /* names: used, none, with signs, of one that has batches, below 0 */
        {.type = ENTRY_WORKER, .worker = -1, .text = "w", .text_bytes = 1},
        {.type = ENTRY_WORKER, .worker = -1, .text = "", .text_bytes = 0},
        {.type = ENTRY_WORKER, .worker = -1, .text = "a b", .text_bytes = 3},
        {.type = ENTRY_WORKER, .worker = 0, .text = "new", .text_bytes = 3},
        {.type = ENTRY_WORKER, .worker = 1, .text = "new", .text_bytes = 3},
        {.type = ENTRY_WORKER, .worker = -1, .seq = -1, .text = "new", .text_bytes = 3},
    };
    struct ledger ledger = ledger_to_check();
    check_all(&ledger, entries, sizeof(entries) / sizeof(entries[0]), ERROR_INPUT);
    ledger_release(&ledger);
}

/* What goes back is drawn first, from the front of the first gap, and not beyond it. */
static void test_draws_from_gaps_are_checked(void **unused)
{
    (void)unused;
    const struct entry can[] = {
        {.type = ENTRY_DRAW, .first = 10, .positions = 5, .units = 5, .worker = -1},
        {.type = ENTRY_DRAW, .first = 10, .positions = 10, .units = 10, .worker = -1}};
    const struct entry cannot[] = {
        {.type = ENTRY_DRAW, .first = 10, .positions = 11, .units = 10, .worker = -1},
        {.type = ENTRY_DRAW, .first = 11, .positions = 5, .units = 5, .worker = -1},
        {.type = ENTRY_DRAW, .first = 30, .positions = 5, .units = 5, .worker = -1},
        {.type = ENTRY_DRAW, .first = 50, .positions = 5, .units = 5, .worker = -1},
        {.type = ENTRY_DRAW, .first = 10, .worker = -1}};
    struct ledger ledger = ledger_of(LEASE_MS, "w");
    apply(&ledger,
          &(struct entry){.type = ENTRY_RESTORE, .worker = -1, .value = 50, LIST(10, 20, 30, 40)},
          0);
    check_all(&ledger, can, 2, OK);
    check_all(&ledger, cannot, 5, ERROR_INPUT);
    ledger_release(&ledger);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_book_is_what_the_model_says),
    cmocka_unit_test(test_draws_that_nobody_heard_of_go_back),
    cmocka_unit_test(test_a_million_leases),
    cmocka_unit_test(test_the_lease_adapts_itself),
    cmocka_unit_test(test_what_was_leased_before_a_restart_is_no_sample),
    cmocka_unit_test(test_a_lease_that_expired_makes_leases_longer),
    cmocka_unit_test(test_an_own_batch_that_expired_is_redelivered),
    cmocka_unit_test(test_what_a_pull_acks_it_does_not_get),
    cmocka_unit_test(test_seqs_have_so_many_holes),
    cmocka_unit_test(test_acks_do_not_count_for_others),
    cmocka_unit_test(test_who_did_what_is_not_passed_on_with_a_number),
    cmocka_unit_test(test_bytes_that_are_no_entry),
    cmocka_unit_test(test_a_list_may_be_encoded_first),
    cmocka_unit_test(test_entries_that_can_follow),
    cmocka_unit_test(test_entries_that_cannot_follow_are_refused),
    cmocka_unit_test(test_draws_from_gaps_are_checked),
};

UNIT_MAIN(tests)
