/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/frame/frame_file: Frame files: what comes back is what was written; whatever else
 * is in the file is reported, never used.
 */
#include "sampler/design/designs.h"
#include "tests/unit/frame_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/file.h"
#include "sampler/build/frame_build.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/frame_file.h"
#include "sampler/frame/frame_view.h"
#include "sampler/shuffle/random.h"
#include "tests/unit/order_unit.h"

static char folder[256];
static char frame_path[300];
static char other_path[300];

static int make_folder(void **state)
{
    (void)state;
    unit_folder_make(folder);
    snprintf(frame_path, sizeof(frame_path), "%s/frame", folder);
    snprintf(other_path, sizeof(other_path), "%s/other", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unit_folder_remove(folder);
    return 0;
}

static struct frame *listed_frame(size_t count, int64_t step)
{
    static const char *const words[] = {"owl", "ant", "bee", "cow"};
    struct listed_unit *units = calloc(count, sizeof(*units));
    char uri[512];
    struct frame *frame;
    assert_non_null(units);
    for (uint64_t i = 0; i < count; i++)
        units[i] = (struct listed_unit){.id = (int64_t)i * step % 1000003,
                                        .label = words[random_mix(i) % 4]};
    write_list(folder, "list.csv", units, count, uri);
    assert_ok(frame_build(uri, &frame));
    free(units);
    return frame;
}

/* ---- there and back ----------------------------------------------------- */

static void check_round_trip(struct frame *frame)
{
    struct frame *mapped;
    struct frame *again;
    struct stat status;
    assert_ok(frame_write(frame, frame_path));
    assert_ok(frame_open(frame_path, &mapped));
    assert_ok(frame_verify(mapped));
    check_equal_frames(frame, mapped);
    assert_int_equal(stat(frame_path, &status), 0);
    assert_true(frame_file_bytes(mapped) == (uint64_t)status.st_size);
    assert_ok(frame_write(mapped, other_path)); /* also over a mapped one */
    assert_ok(frame_open(other_path, &again));
    check_equal_frames(mapped, again);
    frame_free(again);
    frame_free(mapped);
    frame_free(frame);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const char *const ranges[] = {"range:1", "range:1?labels=4",
                                         "range:1000000000?labels=10", "range:77777"};
    for (size_t i = 0; i < 2; i++) {
        struct frame *frame;
        assert_ok(frame_build(ranges[i], &frame));
        check_round_trip(frame);
    }
    check_round_trip(listed_frame(1000, 1));
    check_round_trip(listed_frame(1000, 3));
    check_round_trip(listed_frame(5000, 7919));
    struct frame *big;
    struct frame *mapped;
    assert_ok(frame_build(ranges[2], &big));
    assert_ok(frame_write(big, frame_path));
    assert_ok(frame_open(frame_path, &mapped));
    assert_true(frame_units(mapped) == 1000000000 && frame_id(mapped, 999999999) == 999999999);
    assert_memory_equal(frame_digest(big), frame_digest(mapped), sizeof(struct frame_digest));
    frame_free(mapped);
    frame_free(big);
}

static void test_weights_and_groups_come_back(void **state)
{
    (void)state;
    char uri[600], path[300];
    struct frame *frame;
    struct frame *mapped;
    struct frame *slice;
    snprintf(path, sizeof(path), "%s/full.csv", folder);
    static const char rows[] = "id,label,w,g\n1,a,0.5,x\n5,b,2,y\n3,a,0,x\n9,a,1e-3,z\n";
    assert_ok(file_write_whole(path, rows, sizeof(rows) - 1));
    snprintf(uri, sizeof(uri), "csv:%s?id=id&weight=w&group=g", path);
    assert_ok(frame_build(uri, &frame));
    assert_ok(frame_write(frame, frame_path));
    assert_ok(frame_open(frame_path, &mapped));
    assert_memory_equal(frame_weights(frame), frame_weights(mapped), 4 * sizeof(double));
    assert_int_equal(frame_groups(mapped)->count, 3);
    for (int64_t row = 0; row < 4; row++)
        assert_int_equal(partition_category(frame_groups(frame), row),
                         partition_category(frame_groups(mapped), row));
    assert_ok(frame_view(mapped, 1, 3, NULL, SPLIT_NONE, &slice));
    assert_true(frame_weights(slice)[0] == 2 && frame_groups(slice)->count == 2);
    frame_free(slice);
    frame_free(mapped);
    frame_free(frame);
}

/* The same order from a store and from the file made of it. */
static void test_the_order_does_not_see_the_file(void **state)
{
    (void)state;
    struct frame *frame = listed_frame(3000, 7919);
    struct frame *mapped;
    struct order *a, *b;
    struct design design = {.name = "proportional", .seed = 4};
    int64_t ids[2][3000];
    assert_ok(frame_write(frame, frame_path));
    assert_ok(frame_open(frame_path, &mapped));
    assert_ok(order_new(frame, &design, &a));
    assert_ok(order_new(mapped, &design, &b));
    order_units(a, 1500, 3000, ids[0], NULL, NULL);
    order_units(b, 1500, 3000, ids[1], NULL, NULL);
    assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
    order_free(b);
    order_free(a);
    frame_free(mapped);
    frame_free(frame);
}

/* ---- damage ------------------------------------------------------------- */

static uint8_t *contents(const char *path, size_t *ret_bytes)
{
    struct buffer buffer = BUFFER_INIT(64 << 20);
    assert_ok(file_read_whole(path, &buffer));
    *ret_bytes = buffer.length;
    return (uint8_t *)buffer.data;
}

static void put(const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(other_path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void expect(const uint8_t *bytes, size_t count, const char *text)
{
    struct frame *frame;
    put(bytes, count);
    assert_fails(frame_open(other_path, &frame), ERROR_INPUT, text);
}

static uint8_t *small_file(size_t *ret_bytes)
{
    struct frame *frame = listed_frame(40, 7919);
    assert_ok(frame_write(frame, frame_path));
    frame_free(frame);
    return contents(frame_path, ret_bytes);
}

static void test_every_changed_byte_is_noticed(void **state)
{
    (void)state;
    size_t count;
    uint8_t *bytes = small_file(&count);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        expect(bytes, count, other_path);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    free(bytes);
}

static void test_every_cut_is_noticed(void **state)
{
    (void)state;
    size_t count;
    uint8_t *bytes = small_file(&count);
    expect(bytes, 0, "empty");
    for (size_t cut = 1; cut < count; cut += cut < 200 ? 1 : 61)
        expect(bytes, cut, cut < 64 ? "not a frame file" : "cut off");
    uint8_t *longer = calloc(1, count + 64);
    assert_non_null(longer);
    memcpy(longer, bytes, count);
    expect(longer, count + 64, "cut off or damaged");
    free(longer);
    free(bytes);
}

static void test_foreign_files(void **state)
{
    (void)state;
    static const uint8_t text[200] = "id,label\n1,2\n";
    struct frame *frame;
    size_t count;
    uint8_t *bytes = small_file(&count);
    expect(text, sizeof(text), "build makes one");
    bytes[8] = 2;
    expect(bytes, count, "version 2");
    free(bytes);
    assert_int_equal(frame_open("/no/such/frame", &frame), ERROR_NOT_FOUND);
    assert_fails(frame_open(folder, &frame), ERROR_INPUT, "folder");
}

/* A head whose checksum fits but whose facts do not. */
static void seal(uint8_t *bytes)
{
    struct frame_header *header = (struct frame_header *)bytes;
    header->checksum = 0;
    header->checksum = XXH3_64bits(bytes, FRAME_FILE_HEAD_BYTES);
}

static void expect_sealed(const uint8_t *original, size_t count, size_t offset, uint64_t value,
                          size_t width, const char *text)
{
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    memcpy(bytes, original, count);
    memcpy(bytes + offset, &value, width);
    seal(bytes);
    expect(bytes, count, text);
    free(bytes);
}

static void test_facts_that_do_not_fit(void **state)
{
    (void)state;
    size_t count;
    uint8_t *bytes = small_file(&count);
    size_t first = sizeof(struct frame_header);
    size_t second = first + sizeof(struct frame_section);
    expect_sealed(bytes, count, offsetof(struct frame_header, sections), 17, 4, "17 sections");
    expect_sealed(bytes, count, offsetof(struct frame_header, units), 0, 8, "no units");
    expect_sealed(bytes, count, offsetof(struct frame_header, units), UINT64_MAX, 8, "no units");
    expect_sealed(bytes, count, offsetof(struct frame_header, units), 41, 8, "one a unit");
    expect_sealed(bytes, count, first, 99, 4, "unknown kind 99");
    expect_sealed(bytes, count, second, FRAME_IDS, 4, "twice");
    expect_sealed(bytes, count, first + 4, 3, 4, "does not fit");
    expect_sealed(bytes, count, first + 8, 1, 8, "does not fit");
    expect_sealed(bytes, count, first + 8, UINT64_MAX - 63, 8, "does not fit");
    expect_sealed(bytes, count, first + 16, UINT64_MAX / 4, 8, "does not fit");
    expect_sealed(bytes, count, first + 16, UINT64_MAX / 2 + 1, 8, "does not fit");
    free(bytes);
}

/* A section whose checksum fits but whose elements do not; `element` is one of `width` bytes. */
static void expect_sealed_element(const uint8_t *original, size_t count, uint32_t kind,
                                  size_t element, uint64_t value, const char *text)
{
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    memcpy(bytes, original, count);
    struct frame_section *section = (struct frame_section *)(bytes + sizeof(struct frame_header));
    while (section->kind != kind)
        section++;
    memcpy(bytes + section->offset + element * section->width, &value, section->width);
    section->checksum =
        XXH3_64bits(bytes + section->offset, frame_file_round_up(section->count * section->width));
    seal(bytes);
    expect(bytes, count, text);
    free(bytes);
}

static size_t first_of(const uint8_t *bytes, uint32_t kind)
{
    const struct frame_section *section =
        (const struct frame_section *)(bytes + sizeof(struct frame_header));
    while (section->kind != kind)
        section++;
    return (size_t)((const uint8_t *)&section->first - bytes);
}

/* "ant", "bee", "cow", "owl", each ended by a zero: 16 bytes. */
static void test_labels_that_cannot_be(void **state)
{
    (void)state;
    static const char names[] = "its labels' names are not valid";
    static const char starts[] = "the starts of its strata do not ascend";
    size_t count;
    uint8_t *bytes = small_file(&count);
    expect_sealed_element(bytes, count, FRAME_LABEL_OFFSETS, 0, 4, names);
    expect_sealed_element(bytes, count, FRAME_LABEL_OFFSETS, 1, 0, names); /* an empty name */
    expect_sealed_element(bytes, count, FRAME_LABEL_OFFSETS, 2, 4, names);
    expect_sealed_element(bytes, count, FRAME_LABEL_OFFSETS, 3, 11, names); /* ends within */
    expect_sealed_element(bytes, count, FRAME_LABEL_OFFSETS, 4, 15, names);
    expect_sealed_element(bytes, count, FRAME_LABEL_OFFSETS, 4, 17, names);
    expect_sealed_element(bytes, count, FRAME_LABEL_NAMES, 15, 'x', names);
    expect_sealed_element(bytes, count, FRAME_LABEL_NAMES, 0, 0xff, names); /* no UTF-8 */
    expect_sealed_element(bytes, count, FRAME_LABEL_NAMES, 14, 0, names);   /* a zero within */
    expect_sealed_element(bytes, count, FRAME_LABEL_NAMES, 0, 'c', names);  /* not ascending */
    expect_sealed(bytes, count, first_of(bytes, FRAME_LABEL_NAMES), 1, 8, names); /* no integers */
    expect_sealed_element(bytes, count, FRAME_LABEL_STARTS, 0, 1, starts);
    expect_sealed_element(bytes, count, FRAME_LABEL_STARTS, 1, 0,
                          starts); /* a label without units */
    expect_sealed_element(bytes, count, FRAME_LABEL_STARTS, 1, 40, starts);
    expect_sealed_element(bytes, count, FRAME_LABEL_STARTS, 4, 39, starts);
    free(bytes);
}

/* Ids of 8 bytes have room for numbers that are no ids. */
static void test_ids_that_cannot_be(void **state)
{
    (void)state;
    struct frame *frame;
    size_t count;
    char path[300], uri[600];
    static const char rows[] = "id,label\n9223372036854775807,a\n5,b\n";
    snprintf(path, sizeof(path), "%s/large-ids.csv", folder);
    assert_ok(file_write_whole(path, rows, sizeof(rows) - 1));
    snprintf(uri, sizeof(uri), "csv:%s?id=id", path);
    assert_ok(frame_build(uri, &frame));
    assert_ok(frame_write(frame, frame_path));
    frame_free(frame);
    uint8_t *bytes = contents(frame_path, &count);
    expect_sealed_element(bytes, count, FRAME_IDS, 0, UINT64_C(1) << 63, "ids are out of range");
    expect_sealed_element(bytes, count, FRAME_IDS, 1, UINT64_MAX, "ids are out of range");
    free(bytes);
}

/* Columns that are not kept but counted: ids one after the other, labels in turns. */
static void test_counted_columns_that_cannot_be(void **state)
{
    (void)state;
    struct frame *frame;
    size_t count;
    assert_ok(frame_build("range:30?labels=3", &frame));
    assert_ok(frame_write(frame, frame_path));
    frame_free(frame);
    uint8_t *bytes = contents(frame_path, &count);
    size_t ids = first_of(bytes, FRAME_IDS), codes = first_of(bytes, FRAME_LABEL_CODES);
    expect_sealed(bytes, count, codes, 3, 8, "do not repeat as they say");
    expect_sealed(bytes, count, codes, UINT64_MAX, 8, "do not repeat as they say");
    expect_sealed(bytes, count, ids, INT64_MAX - 28, 8, "ids are out of range");
    expect_sealed(bytes, count, ids, UINT64_MAX, 8, "ids are out of range");
    expect_sealed_element(bytes, count, FRAME_LABEL_NAMES, 0, '-', "its labels' names");
    expect_sealed_element(bytes, count, FRAME_LABEL_NAMES, 0, '3', "its labels' names");
    memcpy(bytes + ids, &(int64_t){INT64_MAX - 29}, 8);
    seal(bytes);
    put(bytes, count);
    assert_ok(frame_open(other_path, &frame));
    assert_int_equal(frame_find(frame, INT64_MAX), 29);
    frame_free(frame);
    free(bytes);
}

/* A file too large to be read wholly when it is opened: damage in it gives wrong units, no crash,
 * and verify finds it. */
static void test_damage_that_only_verify_finds(void **state)
{
    (void)state;
    enum { COUNT = 5200000 };
    struct frame *frame;
    char path[300], uri[600];
    snprintf(path, sizeof(path), "%s/large.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s?id=id", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label\n", file);
    for (uint64_t i = 0; i < COUNT; i++)
        fprintf(file, "%" PRIu64 ",%" PRIu64 "\n", i * 1999 % 7000003, random_mix(i) % 3);
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    assert_ok(frame_write(frame, frame_path));
    frame_free(frame);
    int descriptor = open(frame_path, O_RDWR);
    struct stat status;
    assert_true(descriptor >= 0 && fstat(descriptor, &status) == 0);
    assert_true(status.st_size > FRAME_FILE_CHECKED_BYTES);
    for (uint64_t i = 0; i < 200000; i++) {
        uint8_t wrong = 0xff;
        uint64_t place = 100000 + random_mix(i) % ((uint64_t)status.st_size - 200000);
        assert_int_equal(pwrite(descriptor, &wrong, 1, (off_t)place), 1);
    }
    close(descriptor);
    assert_ok(frame_open(frame_path, &frame));
    struct design design = {.name = "proportional", .seed = 4};
    struct order *order;
    assert_ok(order_new(frame, &design, &order));
    for (int64_t first = 0; first < COUNT; first += 5000) {
        int64_t found[5000];
        uint32_t labels[5000];
        order_units(order, first, 5000, found, labels, NULL);
        order_rows(order, first, 5000, found);
        for (size_t i = 0; i < 5000; i += 97) {
            assert_in_range(found[i], 0, COUNT - 1);
            assert_in_range(frame_stratum_rank(frame, found[i]), 0, COUNT - 1);
            assert_true(frame_find(frame, (int64_t)i) < COUNT);
        }
    }
    order_free(order);
    assert_fails(frame_verify(frame), ERROR_INPUT, "section");
    frame_free(frame);
}

/* ---- writing ------------------------------------------------------------ */

static void test_no_place_to_write(void **state)
{
    (void)state;
    struct frame *frame = listed_frame(40, 3);
    char path[400];
    snprintf(path, sizeof(path), "%s/no/such/folder/frame", folder);
    assert_int_not_equal(frame_write(frame, path), OK);
    assert_fails(frame_write(frame, folder), ERROR_USAGE, folder);
    frame_free(frame);
}

/* ---- while it is served ------------------------------------------------- */

static void write_at(const char *path, const char *text, off_t offset)
{
    int descriptor = open(path, O_WRONLY);
    assert_true(descriptor >= 0);
    assert_int_equal(pwrite(descriptor, text, strlen(text), offset), strlen(text));
    close(descriptor);
}

/* Somebody has it open for writing all the time, so that there is no lease, and nobody waits. */
static void test_a_change_of_a_watched_file_is_told(void **state)
{
    (void)state;
    struct frame *frame = listed_frame(5000, 3);
    struct frame *mapped;
    struct frame *free_one;
    assert_ok(frame_write(frame, frame_path));
    int writer = open(frame_path, O_RDWR);
    assert_ok(frame_open(frame_path, &mapped));
    assert_ok(frame_open(frame_path, &free_one));
    assert_ok(frame_watch_file(mapped));
    assert_ok(frame_watch_file(mapped));
    assert_ok(frame_watch_file(frame)); /* in memory: nothing to watch */
    assert_ok(frame_check_file(mapped));
    assert_ok(frame_check_file(frame));
    usleep(20000); /* the clock of a file's times is coarse */
    write_at(frame_path, "x", 3000);
    assert_fails(frame_check_file(mapped), ERROR_INPUT, "written to while it was served");
    assert_ok(frame_check_file(free_one));
    close(writer);
    frame_free(mapped);
    frame_free(free_one);
    frame_free(frame);
}

/* `frame` as a file, mapped and watched. */
static struct frame *watched_frame(const struct frame *frame)
{
    struct frame *mapped;
    assert_ok(frame_write(frame, frame_path));
    assert_ok(frame_open(frame_path, &mapped));
    assert_ok(frame_watch_file(mapped));
    return mapped;
}

static void test_a_new_file_of_the_name_is_no_change(void **state)
{
    (void)state;
    struct frame *frame = listed_frame(5000, 3);
    struct frame *mapped = watched_frame(frame);
    assert_ok(frame_write(frame, frame_path));
    assert_ok(frame_check_file(mapped));
    assert_int_equal(unlink(frame_path), 0);
    assert_ok(frame_check_file(mapped));
    frame_free(mapped);
    frame_free(frame);
}

static void test_a_writer_waits_for_a_lease(void **state)
{
    (void)state;
    struct frame *frame = listed_frame(5000, 3);
    struct frame *mapped = watched_frame(frame);
    int writer = open(frame_path, O_WRONLY | O_NONBLOCK);
    if (writer >= 0) { /* a file system without leases */
        close(writer);
        frame_free(mapped);
        frame_free(frame);
        print_message("# no leases on this file system\n");
        skip();
    }
    assert_int_equal(errno, EWOULDBLOCK);
    assert_fails(frame_check_file(mapped), ERROR_INPUT, "is being written to");
    frame_free(mapped);
    writer = open(frame_path, O_WRONLY | O_NONBLOCK);
    assert_true(writer >= 0);
    close(writer);
    frame_free(frame);
}

static int read_what_was_cut(void)
{
    struct frame *mapped;
    int64_t sum = 0;
    if (frame_open(frame_path, &mapped) || frame_watch_file(mapped) || truncate(other_path, 4096))
        return 1;
    for (int64_t row = 0; row < frame_units(mapped); row++)
        sum += frame_id(mapped, row);
    return sum ? 3 : 4;
}

/* In a process of its own, that ends with 2 and a line. The other name is a link to the file, which
 * is opened for writing beforehand. */
static void test_a_file_that_is_cut_ends_the_process(void **state)
{
    (void)state;
    struct frame *frame = listed_frame(50000, 3);
    char line[1024] = "";
    int ends[2];
    int status;
    assert_ok(frame_write(frame, frame_path));
    (void)unlink(other_path);
    assert_int_equal(link(frame_path, other_path), 0);
    int writer = open(frame_path, O_RDWR); /* no lease */
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(read_what_was_cut());
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
    assert_non_null(strstr(line, frame_path));
    assert_non_null(strstr(line, "was cut off"));
    close(ends[0]);
    close(writer);
    assert_int_equal(unlink(other_path), 0);
    frame_free(frame);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_round_trips),
    cmocka_unit_test(test_weights_and_groups_come_back),
    cmocka_unit_test(test_the_order_does_not_see_the_file),
    cmocka_unit_test(test_every_changed_byte_is_noticed),
    cmocka_unit_test(test_every_cut_is_noticed),
    cmocka_unit_test(test_foreign_files),
    cmocka_unit_test(test_facts_that_do_not_fit),
    cmocka_unit_test(test_labels_that_cannot_be),
    cmocka_unit_test(test_ids_that_cannot_be),
    cmocka_unit_test(test_counted_columns_that_cannot_be),
    cmocka_unit_test(test_damage_that_only_verify_finds),
    cmocka_unit_test(test_no_place_to_write),
    /* The handler is installed once; cmocka has its own for each test: this one first. */
    cmocka_unit_test(test_a_file_that_is_cut_ends_the_process),
    cmocka_unit_test(test_a_change_of_a_watched_file_is_told),
    cmocka_unit_test(test_a_new_file_of_the_name_is_no_change),
    cmocka_unit_test(test_a_writer_waits_for_a_lease),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
