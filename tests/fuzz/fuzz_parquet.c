/* SPDX-License-Identifier: MIT */
/* The input says which columns, types and values the module hands out, by Arrow's C interface, and
 * how it cuts them into row groups and batches. What opens must give the same rows to scan, fetch
 * and cache. Offsets and codes are right, as the real module checks them. */
#include <errno.h>

#include "loader/parquet/parquet_door.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define COLUMNS_LIMIT 6
#define ROWS_LIMIT 60
#define VALUES_LIMIT 256
#define VALUE_BYTES 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
enum error __wrap_parquet_door_open(const struct parquet_module **ret_module);

/* ---- input -------------------------------------------------------------- */

static const uint8_t *input;
static size_t input_left;

static unsigned take_byte(void)
{
    if (input_left == 0)
        return 0;
    input_left--;
    return *input++;
}

/* ---- columns ------------------------------------------------------------ */

struct values {
    struct arrow_schema schema;
    struct arrow_array array;
    const void *buffers[4];
    uint8_t valid[VALUES_LIMIT / 8 + 1];
    uint8_t data[(VALUES_LIMIT + 1) * VALUE_BYTES];
    uint8_t bytes[VALUES_LIMIT * 8 + 1];
};

struct column {
    struct values outer, inner;
    struct arrow_schema *schema_child;
    struct arrow_array *array_child;
};

static struct column columns[COLUMNS_LIMIT];
static int column_count;
static int64_t rows, group_rows, batch_rows;
static struct parquet_group groups[ROWS_LIMIT];
static int group_count;

static const char *const formats[] = {
    "b",        "c",         "C",          "s",       "S",  "i",   "I",      "l",
    "L",        "e",         "f",          "g",       "u",  "U",   "vu",     "z",
    "Z",        "vz",        "w:4",        "w:0",     "n",  "tdD", "d:9,2",  "d:5,-3",
    "d:7,1,32", "d:18,9,64", "d:70,5,256", "d:3,900", "d:", "+s",  "ts:UTC", "q",
};

static void fill(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)take_byte();
}

/* [count + 1] offsets of `size` bytes, of which each is up to `step` more than the one before. */
static void fill_offsets(struct values *values, int64_t count, size_t size, unsigned step)
{
    uint64_t at = 0;
    for (int64_t i = 0; i <= count; i++) {
        memcpy(values->data + (size_t)i * size, &at, size);
        at += take_byte() % (step + 1);
    }
}

static void fill_views(struct values *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t view[4] = {0};
        fill((uint8_t *)view, sizeof(view));
        view[0] = (int32_t)(take_byte() % 40);
        if (view[0] > 12) {
            view[2] = 0;
            view[3] = (int32_t)(take_byte() % 100);
        }
        memcpy(values->data + i * 16, view, sizeof(view));
    }
}

static void make(struct values *values, const char *format, int64_t count)
{
    bool narrow = strcmp(format, "u") == 0 || strcmp(format, "z") == 0;
    bool wide = strcmp(format, "U") == 0 || strcmp(format, "Z") == 0;
    unsigned nulls = take_byte();
    values->schema.format = format;
    values->array.length = count;
    values->array.buffers = values->buffers;
    values->array.buffer_count = narrow || wide || format[0] == 'v' ? 3 : 2;
    values->array.null_count = nulls % 3 == 0 ? 0 : -1;
    fill(values->valid, sizeof(values->valid));
    fill(values->bytes, sizeof(values->bytes) / 8);
    if (narrow || wide)
        fill_offsets(values, count, narrow ? 4 : 8, 7);
    else if (format[0] == 'v')
        fill_views(values, count);
    else
        fill(values->data, (size_t)count * (nulls % 5 ? 8 : VALUE_BYTES));
    values->buffers[0] = nulls % 3 == 1 ? values->valid : NULL;
    values->buffers[1] = values->data;
    values->buffers[2] = values->bytes;
}

static void fill_codes(struct values *values, int64_t count, size_t size, unsigned below)
{
    memset(values->data, 0, (size_t)count * size);
    for (int64_t i = 0; i < count; i++)
        values->data[(size_t)i * size] = (uint8_t)(take_byte() % below);
}

static void make_column(struct column *column, const char *name)
{
    static const char *const codes[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    static const char *const fixed[] = {"+w:0", "+w:1", "+w:2", "+w:3"};
    const char *format = formats[take_byte() % (sizeof(formats) / sizeof(formats[0]))];
    unsigned form = take_byte() % 8, detail = take_byte();
    memset(column, 0, sizeof(*column));
    column->schema_child = &column->inner.schema;
    column->array_child = &column->inner.array;
    if (form < 4) {
        make(&column->outer, format, rows);
    } else if (form == 4) {
        make(&column->inner, format, 1 + detail % 9);
        make(&column->outer, codes[detail % 8], rows);
        fill_codes(&column->outer, rows, (size_t)1 << detail % 8 / 2, 1 + detail % 9);
        column->outer.schema.dictionary = &column->inner.schema;
        column->outer.array.dictionary = &column->inner.array;
    } else {
        make(&column->inner, format, rows * 4);
        make(&column->outer, form == 5 ? fixed[detail % 4] : form == 6 ? "+l" : "+L", rows);
        fill_offsets(&column->outer, rows, form == 6 ? 4 : 8, detail % 4);
        column->outer.schema.child_count = column->outer.array.child_count = 1;
        column->outer.schema.children = &column->schema_child;
        column->outer.array.children = &column->array_child;
    }
    column->outer.schema.name = name;
}

/* ---- the module --------------------------------------------------------- */

struct parquet_handle {
    int open;
};

struct batches {
    int places[COLUMNS_LIMIT], count;
    int64_t at, end;
};

struct batch {
    struct arrow_array arrays[COLUMNS_LIMIT], *children[COLUMNS_LIMIT];
};

static int open_file(const struct parquet_source *source, struct parquet_handle **ret_handle,
                     char message[PARQUET_MESSAGE_BYTES])
{
    uint8_t first;
    fuzz_check(!source->read(source->context, &first, 1, 0));
    message[0] = '\0';
    *ret_handle = calloc(1, sizeof(**ret_handle));
    return *ret_handle ? 0 : ENOMEM;
}

static void close_file(struct parquet_handle *handle)
{
    free(handle);
}

static void release_schema(struct arrow_schema *schema)
{
    free((void *)schema->children);
    schema->release = NULL;
}

static int get_schema(struct parquet_handle *handle, struct arrow_schema *ret_schema,
                      char message[PARQUET_MESSAGE_BYTES])
{
    (void)handle;
    (void)message;
    *ret_schema = (struct arrow_schema){.format = "+s",
                                        .child_count = column_count,
                                        .children = calloc(COLUMNS_LIMIT, sizeof(void *)),
                                        .release = release_schema};
    for (int i = 0; i < column_count; i++)
        ret_schema->children[i] = &columns[i].outer.schema;
    return 0;
}

static const struct parquet_group *get_groups(const struct parquet_handle *handle, int *ret_count)
{
    (void)handle;
    *ret_count = group_count;
    return groups;
}

static int is_bytes(struct parquet_handle *handle, int column)
{
    (void)handle;
    (void)column;
    return 0;
}

static void release_batch(struct arrow_array *array)
{
    free(array->owner);
    array->release = NULL;
}

static int get_next(struct arrow_stream *stream, struct arrow_array *ret_array)
{
    struct batches *batches = stream->owner;
    int64_t count =
        batches->end - batches->at < batch_rows ? batches->end - batches->at : batch_rows;
    struct batch *batch = calloc(1, sizeof(*batch));
    if (count == 0 || !batch) {
        free(batch);
        ret_array->release = NULL;
        return 0;
    }
    for (int i = 0; i < batches->count; i++) {
        batch->arrays[i] = columns[batches->places[i]].outer.array;
        batch->arrays[i].offset = batches->at;
        batch->arrays[i].length = count;
        batch->children[i] = &batch->arrays[i];
    }
    *ret_array = (struct arrow_array){.length = count,
                                      .child_count = batches->count,
                                      .children = batch->children,
                                      .release = release_batch,
                                      .owner = batch};
    batches->at += count;
    return 0;
}

static void release_stream(struct arrow_stream *stream)
{
    free(stream->owner);
    stream->release = NULL;
}

static int read_rows(struct parquet_handle *handle, int first_group, int count, const int *places,
                     size_t place_count, int64_t wanted_rows, struct arrow_stream *ret_stream,
                     char message[PARQUET_MESSAGE_BYTES])
{
    struct batches *batches = calloc(1, sizeof(*batches));
    (void)handle;
    (void)message;
    fuzz_check(batches && wanted_rows > 0 && place_count <= (size_t)column_count);
    for (size_t i = 0; i < place_count; i++) {
        fuzz_check(places[i] >= 0 && places[i] < column_count);
        fuzz_check(i == 0 || places[i] > places[i - 1]);
        batches->places[batches->count++] = places[i];
    }
    fuzz_check(first_group >= 0 && count > 0 && first_group + count <= group_count);
    batches->at = first_group * group_rows;
    batches->end = (first_group + count) * group_rows;
    if (batches->end > rows)
        batches->end = rows;
    *ret_stream =
        (struct arrow_stream){.get_next = get_next, .release = release_stream, .owner = batches};
    return 0;
}

static const struct parquet_module module = {.library = "none",
                                             .open = open_file,
                                             .close = close_file,
                                             .schema = get_schema,
                                             .groups = get_groups,
                                             .is_bytes = is_bytes,
                                             .read = read_rows};

enum error __wrap_parquet_door_open(const struct parquet_module **ret_module)
{
    *ret_module = &module;
    return OK;
}

/* ------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static const char *const names[] = {"label", "x", "y", "id", "w", "g"};
    static const char *const queries[] = {
        "", "weight=w", "group=g", "element=u8", "element=f32", "id=", "label=x", "features=x"};
    static const char *const limits[] = {"", "&longest=any", "&longest=3", "&longest=1"};
    char uri[2048];
    const char *element;
    input = data;
    input_left = length;
    unsigned first = take_byte();
    const char *query = queries[first % 8], *limit = limits[first / 8 % 4];
    element = first & 32 ? "element=i32&" : "";
    rows = 1 + take_byte() % ROWS_LIMIT;
    group_rows = 1 + take_byte() % ROWS_LIMIT;
    batch_rows = 1 + take_byte() % 9;
    group_count = 0;
    for (int64_t at = 0; at < rows; at += group_rows)
        groups[group_count++] = (struct parquet_group){
            .rows = rows - at < group_rows ? rows - at : group_rows, .bytes = take_byte()};
    column_count = 1 + (int)(take_byte() % COLUMNS_LIMIT);
    for (int i = 0; i < column_count; i++)
        make_column(&columns[i], names[i]);
    snprintf(uri, sizeof(uri), "parquet:%s?%s%s%s", fuzz_file_write((const uint8_t *)"P", 1),
             element, query, query[0] ? limit : limit + (limit[0] == '&'));
    fuzz_store(uri, NULL);
    return 0;
}
