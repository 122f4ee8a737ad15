/* SPDX-License-Identifier: MIT */
/*
 * The first byte chooses delimiter and header. Every record must be split alike by libcsv and by our
 * own path, and decoded alike by the quick and the slow path; a file that opens must give the same
 * rows to scan and fetch.
 */
#include "loader/csv/csv_floats.h"
#include "loader/csv/csv_pass.h"
#include "loader/csv/csv_row.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define FIELDS_LIMIT 64
#define COUNT_LIMIT 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check_same_fields(const struct csv_splitter *own, const struct csv_splitter *oracle)
{
    fuzz_check(own->count == oracle->count);
    for (size_t i = 0; i < own->count && i < FIELDS_LIMIT; i++) {
        fuzz_check(own->fields[i].length == oracle->fields[i].length);
        fuzz_check(memcmp(own->fields[i].data, oracle->fields[i].data, own->fields[i].length) == 0);
    }
}

static void check_split(char *record, size_t length, char delimiter)
{
    struct csv_splitter own;
    struct csv_splitter oracle;
    char *copy = malloc(length);
    if (!copy || csv_splitter_init(&own, delimiter, FIELDS_LIMIT) ||
        csv_splitter_init(&oracle, delimiter, FIELDS_LIMIT))
        abort();
    memcpy(copy, record, length);
    enum error own_error = csv_split(&own, record, length);
    fuzz_check(own_error == csv_split_quoted(&oracle, copy, length));
    if (!own_error)
        check_same_fields(&own, &oracle);
    csv_splitter_release(&own);
    csv_splitter_release(&oracle);
    free(copy);
}

/* The ways to decode fields of small integers; each field count up to what is there. */
static void check_bytes(const char *record, size_t most, char delimiter)
{
    uint8_t own[COUNT_LIMIT];
    uint8_t oracle[COUNT_LIMIT];
    for (size_t count = most > 3 ? most - 3 : 0; count <= most; count++) {
        const char *expected = record;
        size_t fields = csv_bytes_plain(&expected, count, delimiter, oracle);
        for (size_t i = 0; csv_bytes_ways[i]; i++) {
            if (!csv_bytes_ways[i]->is_supported())
                continue;
            const char *at = record;
            fuzz_check(csv_bytes_decode_by(csv_bytes_ways[i], &at, count, delimiter, own) ==
                       fields);
            fuzz_check(at == expected && memcmp(own, oracle, fields) == 0);
        }
    }
}

/* The two ways to decode fields of numbers. */
static void check_floats(const char *record, size_t most, char delimiter)
{
    float own[COUNT_LIMIT];
    float oracle[COUNT_LIMIT];
    bool own_u8 = true, oracle_u8 = true;
    const char *at = record, *expected = record;
    size_t fields = csv_floats_plain(&expected, most, delimiter, oracle, &oracle_u8);
    fuzz_check(csv_floats_decode(&at, most, delimiter, own, &own_u8) == fields);
    fuzz_check(at == expected && own_u8 == oracle_u8);
    fuzz_check(memcmp(own, oracle, fields * sizeof(*own)) == 0);
}

static void check_fields(const char *record, size_t length, char delimiter)
{
    size_t most = csv_count_bytes(record, length, delimiter);
    if (most <= COUNT_LIMIT) {
        check_bytes(record, most, delimiter);
        check_floats(record, most, delimiter);
    }
}

/* The records of the input, cut as csv_block_next() cuts them. */
static void check_records(const uint8_t *data, size_t length, char delimiter)
{
    char *text = malloc(length + 1 + CSV_PADDING_BYTES);
    struct csv_block block = {.data = text, .length = length + 1};
    size_t at = 0;
    int64_t lines = 0;
    size_t record_length;
    int64_t line;
    char *record;
    if (!text)
        abort();
    memcpy(text, data, length);
    memset(text + length, 0, 1 + CSV_PADDING_BYTES);
    text[length] = '\n';
    block.plain = memchr(block.data, '"', length) == NULL;
    while ((record = csv_block_next(&block, delimiter, &at, &lines, &record_length, &line))) {
        fuzz_check(record[record_length - 1] == '\n');
        check_fields(record, record_length, delimiter);
        check_split(record, record_length, delimiter);
    }
    fuzz_check(at == block.length);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static const char *const queries[] = {"",
                                          "?header=no&label=0",
                                          "?header=no",
                                          "?delimiter=tab&label=",
                                          "?weight=w&group=g",
                                          "?header=no&id=0&delimiter=%3B",
                                          "?missing=mean&onehot=*",
                                          "?missing=median&unseen=bad",
                                          "?header=no&onehot=0&missing=7",
                                          "?longest=any",
                                          "?longest=4&header=no&label=0",
                                          "?longest=any&weight=w&group=g",
                                          "?element=i32",
                                          "?longest=any&element=i32&header=no"};
    static const char delimiters[] = {',', ',', ',', '\t', ',', ';', ',',
                                      ',', ',', ',', ',',  ',', ',', ','};
    char uri[1024];
    if (length == 0)
        return 0;
    size_t choice = data[0] % (sizeof(queries) / sizeof(queries[0]));
    check_records(data + 1, length - 1, delimiters[choice]);
    snprintf(uri, sizeof(uri), "csv:%s%s", fuzz_file_write(data + 1, length - 1), queries[choice]);
    fuzz_store(uri, NULL);
    return 0;
}
