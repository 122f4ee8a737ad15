/* SPDX-License-Identifier: MIT */
/* Covers loader/csv/csv_block. */
#include "tests/unit/store_unit.h"

#include <unistd.h>

#include "loader/csv/csv_block.h"
#include "loader/csv/csv_split.h"

enum { BLOCKS_LIMIT = 16 };
#define STRETCH CSV_BLOCK_BYTES

static char *text;
static size_t text_length;
#define TEXT_LIMIT (STRETCH * 6)

static void add(const char *bytes, size_t length)
{
    memcpy(text + text_length, bytes, length);
    text_length += length;
}

/* A record of `length` bytes with its LF; in quotes, there may be line ends in it. */
static void add_record(size_t length, bool quoted, uint64_t *seed)
{
    size_t begin = text_length;
    for (size_t i = 0; i + 1 < length; i++)
        text[text_length++] = "0123456789,,\r"[dice_below(seed, 12)];
    text[text_length++] = '\n';
    if (!quoted || length < 8)
        return;
    text[begin] = text[text_length - 2] = '"';
    for (size_t i = 2; i + 3 < length; i += 1 + dice_below(seed, 60))
        text[begin + i] = '\n';
}

/* Reads all blocks in another order than they are cut in. */
static size_t read_blocks(struct text_file *file, struct csv_block *blocks, uint64_t begin)
{
    size_t count = (size_t)((text_source_length(file->source) - begin + STRETCH - 1) / STRETCH);
    assert_true(count <= BLOCKS_LIMIT);
    for (size_t i = count; i-- > 0;)
        assert_ok(csv_block_read(&blocks[i], file, begin + i * STRETCH));
    return count;
}

/* Every record of the text, once, where it is, on its line. */
static void check_text(uint64_t begin)
{
    struct csv_block blocks[BLOCKS_LIMIT] = {{.memory = NULL}};
    struct csv_place place = {.offset = begin, .line = 7};
    struct text_source source;
    struct text_file file;
    bool lacks_end = text[text_length - 1] != '\n';
    write_bytes("blocks.csv", text, text_length);
    assert_ok(text_source_init(&source, path_of("blocks.csv")));
    assert_ok(text_file_open(&file, &source));
    size_t count = read_blocks(&file, blocks, begin);
    size_t at = (size_t)begin;
    text[text_length] = '\n';
    for (size_t i = 0; i < count; i++) {
        const struct csv_block *block = &blocks[i];
        int64_t line = place.line;
        assert_ok(csv_block_cut(&blocks[i], &file, &place));
        assert_int_equal(block->offset, at);
        assert_int_equal(block->first_line, line);
        assert_true(at + block->length <= text_length + lacks_end);
        assert_memory_equal(block->data, text + at, block->length);
        assert_int_equal(block->lines, csv_count_bytes(text + at, block->length, '\n'));
        assert_true(!block->plain || !memchr(block->data, '"', block->length));
        /* Whole records, all of which begin in the stretch. */
        for (size_t done = 0; done < block->length;) {
            assert_true(at + done < begin + (i + 1) * STRETCH);
            size_t record = csv_count_record(block->data + done, block->length - done, NULL);
            assert_int_not_equal(record, 0);
            done += record;
        }
        at += block->length;
    }
    assert_int_equal(at, text_length + lacks_end);
    for (size_t i = 0; i < count; i++)
        csv_block_release(&blocks[i]);
    text_file_close(&file);
    text_source_release(&source);
}

static void test_records_of_all_lengths(void **state)
{
    uint64_t seed = unit_seed() + 5;
    (void)state;
    for (int round = 0; round < 24; round++) {
        size_t longest = round % 3 == 0 ? 40 : round % 3 == 1 ? 9000 : STRETCH * 2;
        text_length = 0;
        while (text_length < STRETCH * 3)
            add_record(1 + dice_below(&seed, longest), round % 2 && dice_below(&seed, 4) == 0,
                       &seed);
        if (round % 4 == 0)
            add("1,2,3", 5);
        check_text(round % 5 == 0 ? csv_count_record(text, text_length, NULL) : 0);
    }
}

/* Line ends at and around the border of two stretches, and the file's end there. */
static void test_borders(void **state)
{
    uint64_t seed = unit_seed() + 6;
    (void)state;
    for (size_t early = 0; early < 6; early++) {
        for (size_t more = 0; more < 4; more++) {
            text_length = 0;
            add_record(STRETCH + 2 - early, false, &seed);
            for (size_t i = 0; i < more; i++)
                add_record(1 + i, false, &seed);
            check_text(0);
            text[text_length - 1] = '9';
            check_text(0);
        }
    }
}

static void test_a_record_over_several_stretches(void **state)
{
    uint64_t seed = unit_seed() + 7;
    (void)state;
    for (int quoted = 0; quoted < 2; quoted++) {
        text_length = 0;
        add_record(100, false, &seed);
        add_record(STRETCH * 4 + 1234, quoted, &seed);
        add_record(100, quoted, &seed);
        check_text(0);
        text_length -= 100; /* the long one ends the file */
        check_text(0);
    }
}

static void test_a_row_without_an_end(void **state)
{
    struct csv_block block = {.memory = NULL};
    struct csv_place place = {.offset = 0, .line = 1};
    struct text_source source;
    struct text_file file;
    (void)state;
    write_file("long.csv", "1,2\n3,4\n\"5,6\n");
    assert_int_equal(truncate(path_of("long.csv"), (off_t)CSV_RECORD_LIMIT_BYTES + 100), 0);
    assert_ok(text_source_init(&source, path_of("long.csv")));
    assert_ok(text_file_open(&file, &source));
    assert_ok(csv_block_read(&block, &file, 0));
    assert_fails(csv_block_cut(&block, &file, &place), ERROR_INPUT,
                 "long.csv, line 3: the row is longer than 64 MiB; is a quote never closed?");
    csv_block_release(&block);
    text_file_close(&file);
    text_source_release(&source);
}

static int make_text(void **state)
{
    text = malloc(TEXT_LIMIT);
    return text ? make_folder(state) : -1;
}

static int free_text(void **state)
{
    free(text);
    return remove_folder(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_records_of_all_lengths),
    cmocka_unit_test(test_borders),
    cmocka_unit_test(test_a_record_over_several_stretches),
    cmocka_unit_test(test_a_row_without_an_end),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_text, free_text);
}
