/* SPDX-License-Identifier: MIT */
/*
 * Covers common/team: Teams, and what their parts do together: pieces of a section, places of a
 * counting sort.
 */
#include "tests/unit/frame_unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "common/stop.h"
#include "common/team.h"
#include "sampler/build/counting_sort.h"
#include "sampler/build/sort_arena.h"
#include "sampler/frame/frame_output.h"
#include "sampler/frame/section_writer.h"
#include "sampler/shuffle/random.h"

enum { PARTS = 500 };

struct tally {
    atomic_uint done[PARTS];
    atomic_uint hands[TEAM_LIMIT];
    uint64_t bad; /* parts from here on fail */
};

static void doze(uint64_t part)
{
    struct timespec pause = {.tv_nsec = (long)(random_mix(part) % 100000)};
    nanosleep(&pause, NULL);
}

static enum error count_part(void *context, unsigned hand, uint64_t part)
{
    struct tally *tally = context;
    doze(part);
    atomic_fetch_add(&tally->done[part], 1);
    atomic_fetch_add(&tally->hands[hand], 1);
    return part >= tally->bad ? error_set(ERROR_INPUT, "part %d is bad", (int)part) : OK;
}

static void test_every_part_is_done_once(void **state)
{
    static const uint64_t parts[] = {0, 1, 2, 3, PARTS};
    (void)state;
    for (unsigned hands = 1; hands <= TEAM_LIMIT; hands += 3) {
        for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
            struct tally tally = {.bad = PARTS};
            struct team_work work = {
                .what = "counting", .parts = parts[p], .work = count_part, .context = &tally};
            assert_ok(team_run(&work, hands));
            for (uint64_t part = 0; part < PARTS; part++)
                assert_int_equal(tally.done[part], part < parts[p]);
            for (unsigned hand = hands; hand < TEAM_LIMIT; hand++)
                assert_int_equal(tally.hands[hand], 0);
        }
    }
    assert_in_range(team_hands(), 1, TEAM_LIMIT);
}

static void test_a_failure_ends_the_work(void **state)
{
    (void)state;
    for (unsigned hands = 1; hands <= 8; hands++) {
        struct tally tally = {.bad = 20};
        struct team_work work = {
            .what = "counting", .parts = PARTS, .work = count_part, .context = &tally};
        assert_fails(team_run(&work, hands), ERROR_INPUT, " is bad");
        unsigned begun = 0;
        for (uint64_t part = 0; part < PARTS; part++) {
            begun += tally.done[part];
            assert_true(part >= 20 || tally.done[part] == 1); /* what begins is brought to an end */
        }
        assert_in_range(begun, 21, 20 + hands);
    }
}

/* ---- pieces ------------------------------------------------------------- */

struct pieces {
    struct section_writer writer;
    const uint32_t *values;
    uint64_t first; /* piece */
};

static size_t begin_of(uint64_t piece)
{
    return piece * 1000 + piece * piece % 1000;
}

static enum error put_piece(void *context, unsigned hand, uint64_t part)
{
    struct pieces *pieces = context;
    size_t begin = begin_of(part), end = begin_of(part + 1);
    (void)hand;
    doze(part);
    return section_put(&pieces->writer, pieces->first + part, pieces->values + begin,
                       (end - begin) * sizeof(*pieces->values));
}

static void test_pieces_come_in_order(void **state)
{
    size_t count = begin_of(PARTS) + 3;
    uint32_t *values = calloc(count, sizeof(*values));
    struct frame_digest digest = {{0}};
    struct frame_output *output;
    struct mapped_file file;
    (void)state;
    for (size_t i = 0; i < count; i++)
        values[i] = (uint32_t)random_mix(i);
    struct pieces pieces = {.values = values + 2};
    struct team_work work = {
        .what = "putting", .parts = PARTS, .work = put_piece, .context = &pieces};
    assert_ok(frame_output_new(NULL, &output));
    frame_output_plan(output, FRAME_IDS, count, 4, 0);
    frame_output_plan(output, FRAME_IDS_BY_ID, count, 4, 0);
    assert_ok(frame_output_reserve(output));
    assert_ok(section_write(output, FRAME_IDS, values));
    assert_ok(section_open(&pieces.writer, output, FRAME_IDS_BY_ID));
    assert_ok(section_put(&pieces.writer, 0, values, 4));
    assert_ok(section_put(&pieces.writer, 1, values + 1, 4));
    pieces.first = pieces.writer.pieces;
    assert_ok(team_run(&work, 7));
    assert_ok(section_add(&pieces.writer, values + count - 1, 4));
    assert_ok(section_finish(&pieces.writer));
    section_close(&pieces.writer);
    assert_ok(frame_output_map(output, (int64_t)count, &digest, &file));
    const struct frame_section *section = mapped_file_section(&file, FRAME_IDS_BY_ID);
    assert_memory_equal(file.bytes + section->offset, values, count * 4);
    assert_true(section->checksum == mapped_file_section(&file, FRAME_IDS)->checksum);
    assert_ok(mapped_file_check_all(&file));
    mapped_file_close(&file);
    frame_output_free(output);
    free(values);
}

/* ---- places ------------------------------------------------------------- */

static void test_places_keep_the_order_of_rows(void **state)
{
    enum { ROWS = 3000, KINDS = 7 };
    static const uint32_t ranks[KINDS] = {3, 1, 0, 6, 2, 5, 4};
    uint64_t starts[KINDS + 1] = {0};
    uint32_t kinds[ROWS], rows[ROWS];
    (void)state;
    for (size_t row = 0; row < ROWS; row++) {
        kinds[row] = (uint32_t)(random_mix(row) % 5 + random_mix(row) % 3); /* not all as often */
        starts[ranks[kinds[row]] + 1]++;
    }
    for (size_t kind = 0; kind < KINDS; kind++)
        starts[kind + 1] += starts[kind];
    for (unsigned runs = 1; runs <= 5; runs += 2) {
        struct counting_sort places;
        assert_ok(counting_sort_init(&places, runs, KINDS));
        for (size_t row = 0; row < ROWS; row++)
            places.next[row * runs / ROWS][kinds[row]]++;
        for (size_t kind = 0; kind < KINDS; kind++)
            assert_true(counting_sort_count(&places, kind) ==
                        starts[ranks[kind] + 1] - starts[ranks[kind]]);
        counting_sort_sum(&places, starts, ranks);
        for (int time = 0; time < 3; time++) {
            for (size_t row = 0; row < ROWS; row++)
                rows[places.next[row * runs / ROWS][kinds[row]]++] = (uint32_t)row;
            for (size_t i = 1; i < ROWS; i++) {
                uint32_t before = ranks[kinds[rows[i - 1]]], here = ranks[kinds[rows[i]]];
                assert_true(before < here || (before == here && rows[i - 1] < rows[i]));
            }
            counting_sort_rewind(&places, starts, ranks);
        }
        counting_sort_release(&places);
    }
}

static void test_a_room_is_used_again(void **state)
{
    enum { BYTES = 5 << 20 };
    static const uint8_t zeros[BYTES];
    struct sort_arena room;
    void *memory, *again;
    (void)state;
    sort_arena_init(&room, 0);
    assert_true(room.limit_bytes == SORT_ARENA_LEAST);
    assert_ok(sort_arena_take(&room, BYTES, true, &memory));
    assert_memory_equal(memory, zeros, BYTES);
    memset(memory, 1, BYTES);
    assert_ok(sort_arena_take(&room, 100, false, &again));
    assert_ptr_equal(again, memory);
    assert_ok(sort_arena_take(&room, BYTES, true, &again));
    assert_memory_equal(again, zeros, BYTES);
    assert_ok(sort_arena_take(&room, 2 * (size_t)BYTES, true, &again));
    assert_memory_equal(again, zeros, BYTES);
    sort_arena_release(&room);
}

/* The last test: there is no way back. */
static void test_a_team_stops_when_the_program_is_to(void **state)
{
    struct tally tally = {.bad = PARTS};
    struct team_work work = {
        .what = "counting", .parts = PARTS, .work = count_part, .context = &tally};
    (void)state;
    assert_ok(stop_install());
    raise(SIGTERM);
    assert_fails(team_run(&work, 4), ERROR_CANCELLED, "stopped while counting");
    assert_int_equal(tally.done[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_is_done_once),
        cmocka_unit_test(test_a_failure_ends_the_work),
        cmocka_unit_test(test_pieces_come_in_order),
        cmocka_unit_test(test_places_keep_the_order_of_rows),
        cmocka_unit_test(test_a_room_is_used_again),
        cmocka_unit_test(test_a_team_stops_when_the_program_is_to),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
