/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_messages.h"

enum error csv_store_prefix(const struct csv_store *store, enum error code, int64_t line)
{
    return error_prefix(code, "%s, line %lld: ", store->path, (long long)line);
}

enum error csv_store_refuse_twice(const struct csv_store *store, int64_t id, int64_t line,
                                  int64_t other_line)
{
    return error_set(ERROR_INPUT, "%s: lines %lld and %lld both have the id %lld", store->path,
                     (long long)line, (long long)other_line, (long long)id);
}

int64_t csv_store_line(const struct csv_store *store, uint64_t offset)
{
    size_t mark = 0;
    size_t end = store->mark_count;
    while (end - mark > 1) {
        size_t middle = mark + (end - mark) / 2;
        if (store->marks[middle].offset <= offset)
            mark = middle;
        else
            end = middle;
    }
    struct text_file file;
    char buffer[4096];
    int64_t line = store->marks[mark].line;
    uint64_t at = store->marks[mark].offset;
    if (text_file_open(&file, &store->source.text))
        return 0;
    while (at < offset && line > 0) {
        size_t step = offset - at < sizeof(buffer) ? (size_t)(offset - at) : sizeof(buffer);
        if (text_file_read_again(&file, buffer, step, at))
            line = 0;
        else
            line += (int64_t)csv_count_bytes(buffer, step, '\n');
        at += step;
    }
    text_file_close(&file);
    return line;
}

enum error csv_store_refuse_empty(const struct csv_store *store)
{
    enum error error =
        error_set(ERROR_INPUT, "%s has %s; a store needs at least one unit", store->path,
                  store->columns.header ? "a header and no rows" : "no rows");
    return error_set_kind(error, STORE_WITHOUT_ROWS);
}

/* ---- the line of a row -------------------------------------------------- */

struct search {
    const struct csv_store *store;
    const int64_t *rows; /* wanted; [count] */
    int64_t *lines;      /* [count]: their lines */
    size_t count, found;
    int64_t row; /* the next */
};

static enum error read_block(void *context, void *result, struct csv_block *block)
{
    (void)context;
    (void)result;
    (void)block;
    return OK;
}

/* ERROR_END: all were found. */
static enum error search_block(void *context, void *result, const struct csv_block *block)
{
    struct search *search = context;
    size_t at = 0, length;
    int64_t lines = 0, line;
    (void)result;
    while (csv_block_next(block, search->store->delimiter, &at, &lines, &length, &line)) {
        for (size_t i = 0; i < search->count; i++) {
            if (search->rows[i] == search->row) {
                search->lines[i] = line;
                search->found++;
            }
        }
        search->row++;
        if (search->found == search->count)
            return ERROR_END;
    }
    return OK;
}

enum error csv_store_find_lines(const struct csv_store *store, const int64_t *rows, size_t count,
                                int64_t *ret_lines)
{
    struct search search = {.store = store, .rows = rows, .count = count, .lines = ret_lines};
    struct csv_pass pass = {.what = "looking for a row of",
                            .result_bytes = 1,
                            .work = read_block,
                            .take = search_block,
                            .context = &search};
    enum error error = csv_pass_run(&pass, &store->source);
    if (error == ERROR_END)
        return OK;
    return error ? error
                 : error_set(ERROR_NOT_FOUND, "%s has no row %lld", store->path,
                             (long long)rows[0] + 1);
}
