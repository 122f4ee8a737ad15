/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/build/frame_build: The parts of a large build, with so little memory that
 * everything goes by the file and in many passes: what comes out is what a plain sort says.
 */
#include "tests/unit/frame_unit.h"

#include "tests/unit/folder_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/stop.h"
#include "sampler/build/class_rows.h"
#include "sampler/build/frame_build.h"
#include "sampler/build/id_rows.h"
#include "sampler/build/spool_cursor.h"
#include "sampler/frame/frame_output.h"
#include "sampler/shuffle/random.h"

static const char *path_in(const char *name)
{
    static char path[400];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* ---- spools ------------------------------------------------------------- */

static void fill(struct spool *spool, const uint64_t *values, size_t count)
{
    uint64_t seed = count;
    for (size_t done = 0; done < count;) {
        size_t step = random_mix(seed++) % 30000 + 1;
        step = step < count - done ? step : count - done;
        assert_ok(spool_add(spool, values + done, step));
        done += step;
    }
    assert_ok(spool_finish(spool));
    assert_true(spool->rows == count);
}

static void check_spool(const struct spool *spool, const uint64_t *values, size_t count)
{
    const uint64_t *wide;
    const uint32_t *narrow;
    struct spool_cursor cursor;
    size_t got, at = 0;
    uint64_t pieces = 0;
    assert_ok(spool_cursor_open(&cursor, spool));
    do {
        assert_true(cursor.row == at);
        spool_cursor_seek(&cursor, pieces++); /* it is there already */
        assert_true(cursor.row == at);
        assert_ok(spool_cursor_next(&cursor, &wide, &got));
        assert_true(got <= count - at);
        assert_memory_equal(wide, values + at, got * sizeof(*wide));
        at += got;
    } while (got > 0);
    assert_true(at == count);
    assert_true(spool_pieces(spool) == pieces - 1);
    spool_cursor_seek(&cursor, 0);
    for (at = 0; spool->largest <= UINT32_MAX && at < count; at += got) {
        assert_ok(spool_cursor_next32(&cursor, &narrow, &got));
        assert_true(got > 0);
        for (size_t i = 0; i < got; i++)
            assert_true(narrow[i] == values[at + i]);
    }
    spool_cursor_close(&cursor);
}

/* kind 0: counts up; 1: goes round; 2: narrow values; 3: wide ones; `rule` rows follow the rule. */
static uint64_t value_of(int kind, size_t i, size_t rule)
{
    if (kind == 0)
        return 70 + i + (i >= rule) * 5;
    if (kind == 1)
        return i < rule ? i % 7 : random_mix(i) % 9;
    return random_mix(i) % (kind == 2 ? 1 + i : INT64_MAX);
}

static void test_spools_give_back_what_they_got(void **state)
{
    enum { COUNT = 100000 };
    static const uint64_t memories[] = {0, (uint64_t)4 << 20, UINT64_MAX};
    static const size_t rules[] = {0, 1, 5, 16384, 20000, COUNT};
    uint64_t *values = calloc(COUNT, sizeof(*values));
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        for (size_t r = 0; r < 6; r++) {
            for (size_t i = 0; i < COUNT; i++)
                values[i] = value_of(kind, i, rules[r]);
            for (size_t m = 0; m < 3; m++) {
                struct spool_store store;
                struct spool spool;
                spool_store_init(&store, path_in("x"), memories[m]);
                assert_ok(spool_init(&spool, &store, kind == 1, "values"));
                fill(&spool, values, COUNT);
                check_spool(&spool, values, COUNT);
                if (kind < 2 && rules[r] == COUNT)
                    assert_true(spool_is_ruled(&spool) && spool.chunk_count == 0);
                assert_true((store.descriptor >= 0) == (m == 0 && spool.chunk_count > 0));
                spool_release(&spool);
                spool_store_release(&store);
            }
        }
    }
    free(values);
}

static void test_nothing_is_seen_of_what_is_put_aside(void **state)
{
    struct spool_store store;
    struct spool spool;
    uint64_t values[SPOOL_CHUNK + 1]; /* the first one is a rule by itself */
    (void)state;
    for (size_t i = 0; i <= SPOOL_CHUNK; i++)
        values[i] = random_mix(i);
    unit_folder_remove(folder);
    unit_folder_make(folder);
    spool_store_init(&store, path_in("x"), 0);
    assert_ok(spool_init(&spool, &store, false, "values"));
    assert_ok(spool_add(&spool, values, SPOOL_CHUNK + 1));
    assert_true(store.descriptor >= 0);
    assert_int_equal(rmdir(folder), 0); /* it is empty */
    spool_release(&spool);
    spool_store_release(&store);
    unit_folder_make(folder);
}

/* ---- rows by id --------------------------------------------------------- */

struct id_row {
    uint64_t id;
    uint64_t row;
};

static int compare_ids(const void *a, const void *b)
{
    const struct id_row *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* What id_rows_write() makes, read back from a file. */
static enum error sort_ids(const uint64_t *ids, size_t count, uint64_t memory_bytes,
                           uint64_t *ret_rows, struct id_twice *ret_twice)
{
    struct spool_store store;
    struct spool spool;
    struct frame_output *output;
    struct section_writer writer;
    struct sort_arena room;
    struct mapped_file file;
    struct frame_digest digest = {{0}};
    uint64_t smallest = UINT64_MAX;
    for (size_t i = 0; i < count; i++)
        smallest = ids[i] < smallest ? ids[i] : smallest;
    spool_store_init(&store, path_in("x"), 0);
    assert_ok(spool_init(&spool, &store, false, "ids"));
    fill(&spool, ids, count);
    assert_ok(frame_output_new(NULL, &output));
    frame_output_plan(output, FRAME_IDS_BY_ID, count, packed_width(count - 1), 0);
    assert_ok(frame_output_reserve(output));
    assert_ok(section_open(&writer, output, FRAME_IDS_BY_ID));
    sort_arena_init(&room, memory_bytes);
    enum error error = id_rows_write(&spool, smallest, &room, &writer, ret_twice);
    sort_arena_release(&room);
    if (!error) {
        assert_ok(section_finish(&writer));
        assert_ok(frame_output_map(output, (int64_t)count, &digest, &file));
        const struct frame_section *section = mapped_file_section(&file, FRAME_IDS_BY_ID);
        struct packed view = {.data = (void *)(file.bytes + section->offset),
                              .count = count,
                              .width = section->width};
        for (size_t i = 0; i < count; i++)
            ret_rows[i] = packed_get(&view, i);
        mapped_file_close(&file);
    }
    section_close(&writer);
    frame_output_free(output);
    spool_release(&spool);
    spool_store_release(&store);
    return error;
}

/* Ids of several kinds of lists, each once. */
static uint64_t id_of(int kind, uint64_t i, uint64_t count)
{
    switch (kind) {
    case 0:
        return 1000 + (i * 7919) % count; /* dense: 7919 and count have no common divisor */
    case 1:
        return ((i * 7919) % count) * 6 + 3; /* with holes */
    case 2:
        return (random_mix(i) & ~UINT64_C(0xfffff)) >> 1 | i; /* far apart */
    case 3: /* nearly all in one corner of a huge range */
        return i == 5 ? INT64_MAX : (i * 7919) % count * 40;
    default: /* several crowded places far apart */
        return (random_mix(i % 5) >> 20 << 19) + (i * 7919) % count * 11;
    }
}

static void test_rows_by_id(void **state)
{
    static const size_t counts[] = {2, 3, 255, 256, 257, 70001, 300007};
    static const uint64_t memories[] = {0, (uint64_t)64 << 20};
    enum { MOST = 300007 };
    uint64_t *ids = calloc(MOST, sizeof(*ids)), *rows = calloc(MOST, sizeof(*rows));
    struct id_row *sorted = calloc(MOST, sizeof(*sorted));
    struct id_twice twice;
    (void)state;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (int kind = 0; kind < 5; kind++) {
            for (size_t i = 0; i < counts[c]; i++) {
                ids[i] = id_of(kind, i, counts[c]);
                sorted[i] = (struct id_row){.id = ids[i], .row = i};
            }
            qsort(sorted, counts[c], sizeof(*sorted), compare_ids);
            for (size_t m = 0; m < 2; m++) {
                assert_ok(sort_ids(ids, counts[c], memories[m], rows, &twice));
                for (size_t i = 0; i < counts[c]; i++)
                    assert_true(rows[i] == sorted[i].row);
            }
        }
    }
    free(ids);
    free(rows);
    free(sorted);
}

static void test_ids_that_come_twice(void **state)
{
    enum { COUNT = 200003 };
    uint64_t *ids = calloc(COUNT, sizeof(*ids)), *rows = calloc(COUNT, sizeof(*rows));
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        for (size_t m = 0; m < 2; m++) {
            struct id_twice twice = {.id = 0};
            for (size_t i = 0; i < COUNT; i++)
                ids[i] = id_of(kind, i, COUNT);
            /* Three rows of one id, two of another: the smaller id's first two are told. */
            size_t smaller = ids[70] < ids[150000] ? 70 : 150000, larger = 150070 - smaller;
            ids[199999] = ids[100] = ids[smaller];
            ids[180000] = ids[larger];
            assert_int_equal(sort_ids(ids, COUNT, m ? (uint64_t)64 << 20 : 0, rows, &twice),
                             ERROR_CONFLICT);
            assert_true(twice.id == ids[smaller]);
            assert_int_equal(twice.rows[0], smaller < 100 ? smaller : 100);
            assert_int_equal(twice.rows[1], smaller < 100 ? 100 : smaller);
        }
    }
    free(ids);
    free(rows);
}

/* ---- rows by category --------------------------------------------------- */

static void test_rows_by_class(void **state)
{
    enum { COUNT = 700001, CLASSES = 300 };
    uint64_t *codes = calloc(COUNT, sizeof(*codes));
    uint64_t starts[CLASSES + 1] = {0};
    uint32_t ranks[CLASSES];
    struct spool_store store;
    struct spool spool;
    struct frame_output *output;
    struct section_writer writer;
    struct sort_arena room;
    struct mapped_file file;
    struct frame_digest digest = {{0}};
    (void)state;
    for (uint32_t c = 0; c < CLASSES; c++)
        ranks[c] = (c * 7 + 3) % CLASSES;
    for (size_t i = 0; i < COUNT; i++) { /* one giant among small ones */
        codes[i] = random_mix(i) % 3 ? 17 : random_mix(i + COUNT) % CLASSES;
        starts[ranks[codes[i]] + 1]++;
    }
    for (size_t c = 0; c < CLASSES; c++)
        starts[c + 1] += starts[c];
    spool_store_init(&store, path_in("x"), 0);
    assert_ok(spool_init(&spool, &store, true, "codes"));
    fill(&spool, codes, COUNT);
    assert_ok(frame_output_new(NULL, &output));
    frame_output_plan(output, FRAME_LABEL_ROWS, COUNT, 4, 0);
    assert_ok(frame_output_reserve(output));
    assert_ok(section_open(&writer, output, FRAME_LABEL_ROWS));
    sort_arena_init(&room, 0);
    assert_ok(class_rows_write(&spool, ranks, starts, CLASSES, &room, &writer));
    sort_arena_release(&room);
    assert_ok(section_finish(&writer));
    assert_ok(frame_output_map(output, COUNT, &digest, &file));
    const uint32_t *rows =
        (const void *)(file.bytes + mapped_file_section(&file, FRAME_LABEL_ROWS)->offset);
    for (uint32_t c = 0; c < CLASSES; c++) {
        for (uint64_t j = starts[c]; j < starts[c + 1]; j++) {
            assert_true(ranks[codes[rows[j]]] == c);
            assert_true(j == starts[c] || rows[j] > rows[j - 1]);
        }
    }
    mapped_file_close(&file);
    section_close(&writer);
    frame_output_free(output);
    spool_release(&spool);
    spool_store_release(&store);
    free(codes);
}

/* ---- all of it ---------------------------------------------------------- */

static void test_a_file_holds_what_the_frame_in_memory_holds(void **state)
{
    static const char *const rows[] = {
        "id,label,w,g\n7,dog,0.5,x\n3,cat,2,y\n9,dog,0,x\n1,1e3,1e-3,z\n",
        "id,label,w,g\n0,0,1,a\n1,1,1,b\n2,2,1,a\n3,0,1,b\n4,1,1,a\n",
        "id,label,w,g\n0,1,1,a\n1,2,1,a\n2,0,1,a\n3,1,1,a\n",
        "id,label,w,g\n5,a,0,q\n",
        "id,label,w,g\n5,b,0,q\n6,a,0,r\n7,b,0,q\n8,a,0,r\n9,b,1,s\n",
    };
    static const char *const queries[] = {"", "?label=", "?weight=w&group=g", "?id=&weight=w",
                                          "?id=w&label=g"};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t q = 0; q < 4; q++) {
            char uri[512];
            struct frame *memory, *file;
            FILE *list = fopen(path_in("list.csv"), "w");
            fputs(rows[i], list);
            fclose(list);
            snprintf(uri, sizeof(uri), "csv:%s/list.csv%s", folder, queries[q]);
            assert_ok(frame_build(uri, &memory));
            assert_ok(frame_build_file(uri, path_in("frame"), 0));
            assert_ok(frame_open(path_in("frame"), &file));
            check_equal_frames(memory, file);
            assert_true(frame_file_bytes(memory) == 0 && frame_file_bytes(file) > 0);
            assert_ok(frame_verify(file));
            assert_true((frame_weights(file) != NULL) == (frame_weights(memory) != NULL));
            for (int64_t row = 0; frame_weights(file) && row < frame_units(file); row++)
                assert_true(frame_weights(file)[row] == frame_weights(memory)[row]);
            for (int64_t row = 0; frame_groups(file) && row < frame_units(file); row++)
                assert_int_equal(partition_category(frame_groups(file), row),
                                 partition_category(frame_groups(memory), row));
            frame_free(memory);
            frame_free(file);
        }
    }
}

static void test_rows_are_named_where_they_stand(void **state)
{
    char uri[512];
    struct frame *frame;
    static const struct listed_unit twice[] = {{5, "a"}, {7, "b"}, {6, "a"}, {7, "c"}};
    (void)state;
    write_list(folder, "twice.csv", twice, 4, uri);
    assert_fails(frame_build(uri, &frame), ERROR_INPUT, "twice.csv, line 3 and in ");
    assert_fails(frame_build(uri, &frame), ERROR_INPUT, "id 7 comes twice");
    assert_fails(frame_build_file(uri, path_in("out"), 0), ERROR_INPUT, "twice.csv, line 5");
    assert_int_equal(access(path_in("out"), F_OK), -1);
}

/* The build ends before its first column: standard input stays open. */
static void test_a_place_that_is_not_there_closes_nothing(void **state)
{
    char uri[512];
    static const struct listed_unit units[] = {{5, "a"}, {7, "b"}};
    (void)state;
    write_list(folder, "some.csv", units, 2, uri);
    int descriptor = open("/dev/null", O_RDONLY);
    assert_int_equal(dup2(descriptor, STDIN_FILENO), STDIN_FILENO);
    assert_fails(frame_build_file(uri, path_in("none/out"), 0), ERROR_NOT_FOUND, "none/out");
    assert_int_not_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    close(descriptor);
}

static void test_what_a_killed_build_left_is_removed(void **state)
{
    static const char *const left[] = {"out.tmp.123.0", "out.tmp.4000000.17"};
    static const char *const kept[] = {"out.tmp.12", "out.tmp.12.x", "out.tmp.1.2.3",
                                       "other.tmp.1.2", "out.tmp"};
    struct frame_output *living;
    (void)state;
    for (size_t i = 0; i < 5; i++)
        fclose(fopen(path_in(kept[i]), "w"));
    for (size_t i = 0; i < 2; i++)
        fclose(fopen(path_in(left[i]), "w"));
    char out[400];
    snprintf(out, sizeof(out), "%s/out", folder);
    assert_ok(frame_output_new(out, &living)); /* locked: another build leaves it alone */
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(access(path_in(left[i]), F_OK), -1);
    frame_output_plan(living, FRAME_IDS, 0, 8, 0);
    assert_ok(frame_build_file("range:5", out, 0));
    struct frame_digest digest = {{0}};
    assert_ok(frame_output_reserve(living));
    assert_ok(section_write(living, FRAME_IDS, ""));
    assert_ok(frame_output_commit(living, 5, &digest));
    frame_output_free(living);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(access(path_in(kept[i]), F_OK), 0);
}

static int fail_waits; /* errno of a sync_file_range() that waits; 0: it works */

int __real_sync_file_range(int descriptor, off64_t offset, off64_t count, unsigned flags);
int __wrap_sync_file_range(int descriptor, off64_t offset, off64_t count, unsigned flags);
int __wrap_sync_file_range(int descriptor, off64_t offset, off64_t count, unsigned flags)
{
    if (!fail_waits || !(flags & SYNC_FILE_RANGE_WAIT_AFTER))
        return __real_sync_file_range(descriptor, offset, count, flags);
    errno = fail_waits;
    return -1;
}

/* The system reports it to the first that waits: the fsync at the end says nothing of it. */
static void test_a_write_back_that_fails_is_a_failure(void **state)
{
    struct frame_output *output;
    const char *out = path_in("failed");
    (void)state;
    assert_ok(frame_output_new(out, &output));
    fail_waits = ENOSYS;
    assert_ok(frame_output_put(output, "row", 3, (uint64_t)1 << 30));
    fail_waits = EIO;
    assert_ok(frame_output_put(output, "row", 3, 0)); /* waits for nothing yet */
    assert_fails(frame_output_put(output, "row", 3, (uint64_t)1 << 30), ERROR_IO, out);
    fail_waits = 0;
    frame_output_free(output);
    assert_int_equal(access(out, F_OK), -1);
}

static int stopped_build(void)
{
    struct frame *built = NULL;
    if (stop_install() || raise(SIGTERM))
        return 2;
    return frame_build_by_scan("range:5000?labels=2", &built) == ERROR_CANCELLED ? 0 : 1;
}

/* In a child: a stop is for good. */
static void test_a_stop_ends_the_build(void **state)
{
    (void)state;
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(stopped_build());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spools_give_back_what_they_got),
        cmocka_unit_test(test_nothing_is_seen_of_what_is_put_aside),
        cmocka_unit_test(test_rows_by_id),
        cmocka_unit_test(test_ids_that_come_twice),
        cmocka_unit_test(test_rows_by_class),
        cmocka_unit_test(test_a_file_holds_what_the_frame_in_memory_holds),
        cmocka_unit_test(test_rows_are_named_where_they_stand),
        cmocka_unit_test(test_a_place_that_is_not_there_closes_nothing),
        cmocka_unit_test(test_what_a_killed_build_left_is_removed),
        cmocka_unit_test(test_a_write_back_that_fails_is_a_failure),
        cmocka_unit_test(test_a_stop_ends_the_build),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
