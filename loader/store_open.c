/* SPDX-License-Identifier: MIT */
#include "loader/store_open.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#include "common/array.h"
#include "common/file.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/cache/kept_store.h"
#include "loader/store/duplicate_files.h"
#include "loader/store/feature_recipe.h"
#include "loader/store/recipe_learner.h"
#include "loader/store/row_slots.h"
#include "loader/store/store_files.h"
#include "loader/store/store_kinds.h"
#include "loader/store/store_union.h"

static const struct store_ops *const kinds[] = {
    &store_csv_ops,      &store_idx_ops,  &store_parquet_ops,
    &store_range_ops,    &store_rows_ops, &store_sqlite_ops,
#ifdef HAVE_LIBPQ
    &store_postgres_ops,
#endif
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

static const struct store_ops *find_kind(const struct uri *uri)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (uri->scheme[0] ? strcmp(uri->scheme, kinds[i]->scheme) == 0
                           : kinds[i]->endings && store_path_ends_in(uri->path, kinds[i]->endings))
            return kinds[i];
    }
    return NULL;
}

/* Common kinds of files, and what makes a store of them. */
static const struct {
    const char *endings, *advice;
} others[] = {
    {".gz", "a compressed file is a store only if it is CSV or IDX (csv:PATH, idx:PATH); unpack "
            "others (gzip -d)"},
    {".bz2", "files compressed like this are not read; unpack it (bzip2 -d)"},
    {".xz", "files compressed like this are not read; unpack it (xz -d)"},
    {".zst", "a compressed file is a store only if it is CSV or IDX (csv:PATH, idx:PATH); unpack "
             "others (zstd -d)"},
    {".zip", "files compressed like this are not read; unpack it (unzip)"},
    {".txt", "rows of text are csv:PATH, whatever the file is called (delimiter=tab, ; or | in the "
             "URI where it is no comma)"},
    {".json|.jsonl|.ndjson",
     "JSON is not read; make it CSV (DuckDB: COPY (FROM 'x.json') TO 'x.csv')"},
    {".xlsx|.xls|.ods", "spreadsheets are not read; save it as CSV in UTF-8"},
    {".feather|.arrow", "Arrow files are not read; make it CSV (pandas: read_feather(\"x.feather\")"
                        ".to_csv(\"x.csv\", index=False))"},
    {".tfrecord|.tfrecords", "TensorFlow's records are not read; write their features as CSV"},
    {".npy|.npz",
     "NumPy's format is not read; make it CSV (numpy.savetxt(\"x.csv\", x, delimiter=\",\"))"},
};

static enum error refuse_kind(const char *text, const struct uri *uri)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *place = strstr(text, "://");
    bool may_hold_password = place && strchr(place, '@');
    text_quote(shown, sizeof(shown), text,
               may_hold_password ? (size_t)(place - text) : strlen(text));
    if (strcmp(uri->scheme, "postgresql") == 0)
        return error_set(ERROR_UNAVAILABLE,
                         "this build has no PostgreSQL store (it was made without libpq); csv:, "
                         "sqlite:, idx:, rows: and range: are there");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (store_path_ends_in(uri->path, others[i].endings))
            return error_set(ERROR_USAGE, "%s: %s", shown, others[i].advice);
    }
    return error_set(
        ERROR_USAGE,
        "%s: which kind of store is that? csv:PATH, parquet:PATH, sqlite:PATH, rows:PATH, "
        "idx:PATH, range:N and postgresql://HOST/DATABASE?table=NAME are known, and bare paths "
        "ending in .csv, .tsv, .idx, -idx3-ubyte (.gz or .zst behind it), .sqlite, .sqlite3, .db, "
        ".parquet or .rows",
        shown);
}

/* One pass through all stores that a text names: to open them, or to learn from them. */
struct opening {
    struct store_open_options options;
    struct store **parts; /* owned list of owned stores, in their order */
    size_t count, capacity;
    size_t empty_count;        /* stores without rows, which are not among the parts */
    struct error_report empty; /* the last one's message */
    struct duplicate_files files;
};

/* read_request() has read it; the kind of store need not know its parameters. */
static enum error pass_over_request(struct uri *uri)
{
    struct recipe_request request;
    enum error error = recipe_request_read(&request, uri);
    recipe_request_release(&request);
    return error;
}

/* One store. `shown` is its URI in messages. */
static enum error open_kind(const struct opening *opening, const struct store_ops *ops,
                            struct uri *uri, const char *shown, struct store **ret_store)
{
    struct store *store = NULL;
    char *copy = strdup(shown);
    if (!copy)
        return error_set_memory(strlen(shown), "a store's URI");
    const struct store_open_options *options = &opening->options;
    uri->columns = options->columns;
    uri->column_count = options->column_count;
    uri->recipe = options->keys_only ? NULL : options->recipe;
    enum error error = ops->takes_recipe ? pass_over_request(uri) : OK;
    if (!error)
        error = options->cache.bytes > 0 && ops->open_cached
                    ? ops->open_cached(uri, options->cache.bytes, &store)
                    : ops->open(uri, options->keys_only, &store);
    if (error) {
        free(copy);
        return error;
    }
    store->ops = ops;
    if (store->info.uri) /* the store has its own name for it, without a password */
        free(copy);
    else
        store->info.uri = copy;
    *ret_store = store;
    return OK;
}

/* A row cache of several stores reads them again, so rows kept by the first store are dropped. */
static void keep_no_rows(struct opening *opening)
{
    struct store *first = opening->parts[0];
    struct row_slots slots;
    const struct id_index *ids;
    if (opening->options.cache.bytes > 0 && first->ops->take_rows &&
        first->ops->take_rows(first, &slots, &ids))
        row_slots_release(&slots);
    opening->options.cache.bytes = 0;
}

/* `text` is the URI as given, `shown` the store's name in messages. A store without rows is skipped
 * in a union: programs that write a file for each of their parts produce such. */
static enum error add_part(struct opening *opening, const struct store_ops *ops, struct uri *uri,
                           const char *text, const char *shown)
{
    struct store *store = NULL;
    const char *parameters = strrchr(text, '?');
    if (opening->count > 0)
        keep_no_rows(opening);
    enum error error = array_grow((void **)&opening->parts, &opening->capacity, opening->count + 1,
                                  sizeof(struct store *), "a list of stores");
    if (!error && ops->endings)
        error = duplicate_files_add(&opening->files, uri->path, parameters ? parameters : "");
    if (!error)
        error = open_kind(opening, ops, uri, shown, &store);
    if (!error)
        opening->parts[opening->count++] = store;
    if (!store_is_without_rows(error))
        return error;
    error_report_take(error, &opening->empty);
    opening->empty_count++;
    return OK;
}

/* The URI again, for one of the files of its path. */
static enum error add_file(struct opening *opening, const struct store_ops *ops, const char *text,
                           const char *path)
{
    struct uri uri;
    enum error error = uri_init(&uri, text);
    if (error)
        return error;
    free(uri.path);
    uri.path = strdup(path);
    error = uri.path ? add_part(opening, ops, &uri, text, path)
                     : error_set_memory(strlen(path), "a file's name");
    uri_release(&uri);
    return error;
}

/* Resolves one URI; *ret_files without paths: one store, the URI's own. */
static enum error resolve(const char *text, struct uri *uri, const struct store_ops **ret_ops,
                          struct store_files *ret_files)
{
    *ret_files = (struct store_files){.paths = NULL};
    enum error error = uri_init(uri, text);
    if (error)
        return error;
    *ret_ops = find_kind(uri);
    if (!*ret_ops)
        error = refuse_kind(text, uri);
    else if ((*ret_ops)->endings)
        error = store_files_find(ret_files, uri->path, (*ret_ops)->endings);
    if (error)
        uri_release(uri);
    return error;
}

/* All stores of one URI. */
static enum error add_uri(void *context, const char *text)
{
    struct opening *opening = context;
    struct uri uri;
    struct store_files files;
    const struct store_ops *ops;
    enum error error = resolve(text, &uri, &ops, &files);
    if (error)
        return error;
    if (!files.paths)
        error = add_part(opening, ops, &uri, text, text);
    for (size_t i = 0; files.paths && i < files.count && !error; i++)
        error = add_file(opening, ops, text, files.paths[i]);
    store_files_release(&files);
    uri_release(&uri);
    return error;
}

static enum error check_file(const char *path)
{
    int descriptor;
    enum error error = file_open_read(path, &descriptor);
    if (!error)
        close(descriptor);
    return error;
}

static enum error check_uri(void *context, const char *text)
{
    struct uri uri;
    struct store_files files;
    const struct store_ops *ops;
    enum error error = resolve(text, &uri, &ops, &files);
    (void)context;
    if (error)
        return error;
    if (!files.paths && ops->endings)
        error = check_file(uri.path);
    for (size_t i = 0; files.paths && i < files.count && !error; i++)
        error = check_file(files.paths[i]);
    store_files_release(&files);
    uri_release(&uri);
    return error;
}

/* One URI per line; empty lines are skipped. */
static enum error for_each_uri(const char *text, enum error (*visit)(void *, const char *),
                               void *context)
{
    size_t count = 0;
    enum error error = OK;
    if (!strchr(text, '\n'))
        return visit(context, text);
    for (const char *at = text; *at && !error;) {
        size_t length = strcspn(at, "\n");
        char *line = strndup(at, length);
        if (!line)
            error = error_set_memory(length, "a store's URI");
        else if (length > 0)
            error = visit(context, line);
        count += length > 0;
        free(line);
        at += length + (at[length] == '\n');
    }
    if (!error && count == 0)
        error = error_set(ERROR_USAGE, "no URI of a store, but empty lines");
    return error;
}

static enum error unite(struct opening *opening, const char *text, struct store **ret_store)
{
    struct store *whole;
    char *copy = strdup(text);
    size_t count = opening->count;
    if (!copy)
        return error_set_memory(strlen(text), "a store's URI");
    for (char *at = copy; (at = strchr(at, '\n'));)
        *at = ' ';
    opening->count = 0; /* the union takes them, also on failure */
    enum error error = store_union_new(opening->parts, count, opening->options.keys_only, &whole);
    if (error) {
        free(copy);
        return error;
    }
    whole->info.uri = copy;
    *ret_store = whole;
    return OK;
}

static enum error check_empty(const struct opening *opening)
{
    if (opening->empty_count > 0 && opening->count == 0)
        return error_restore(&opening->empty);
    if (opening->empty_count > 0)
        log_warning("%zu of %zu stores without rows passed over; the last of them: %s",
                    opening->empty_count, opening->empty_count + opening->count,
                    opening->empty.message);
    return OK;
}

static void release_parts(struct opening *opening)
{
    for (size_t i = 0; i < opening->count; i++)
        store_close(opening->parts[i]);
    free(opening->parts);
    duplicate_files_release(&opening->files);
}

static enum error open_all(const struct store_open_options *options, const char *text,
                           struct store **ret_store)
{
    struct opening opening = {.options = *options};
    enum error error = for_each_uri(text, add_uri, &opening);
    if (!error)
        error = check_empty(&opening);
    if (!error && opening.count == 1)
        *ret_store = opening.parts[--opening.count];
    else if (!error)
        error = unite(&opening, text, ret_store);
    release_parts(&opening);
    return error;
}

/* ---- recipes ------------------------------------------------------------ */

struct asked {
    struct recipe_request request; /* common to the stores so far */
    size_t stores;
};

/* Stores of a union must request the same. */
static enum error read_request(void *context, const char *text)
{
    struct asked *asked = context;
    struct recipe_request request = {.missing = MISSING_BAD};
    struct uri uri;
    enum error error = uri_init(&uri, text);
    if (error)
        return error;
    const struct store_ops *ops = find_kind(&uri);
    if (ops && ops->takes_recipe)
        error = recipe_request_read(&request, &uri);
    uri_release(&uri);
    if (!error && asked->stores > 0 && !recipe_request_is_same(&request, &asked->request))
        error = error_set(ERROR_USAGE, "stores that are read as one have the same missing= and "
                                       "onehot=; one has others, or none");
    if (!error && asked->stores++ == 0)
        asked->request = request;
    else
        recipe_request_release(&request);
    return error;
}

/* One pass through all rows. */
static enum error learn_once(const struct store_open_options *options, const char *text,
                             bool *ret_again)
{
    struct opening opening = {.options = *options};
    opening.options.cache = (struct store_cache){.bytes = 0};
    enum error error = for_each_uri(text, add_uri, &opening);
    if (!error)
        error = check_empty(&opening);
    if (!error) {
        error = recipe_learner_next(options->recipe, ret_again);
        if (error)
            error = error_prefix(error, "%.400s: ", opening.parts[0]->info.uri);
    }
    release_parts(&opening);
    return error;
}

static enum error learn(const struct store_open_options *options, const char *text,
                        struct recipe_request *request, struct feature_recipe **ret_recipe)
{
    struct store_open_options learning = *options;
    bool again = true;
    learning.recipe = feature_recipe_new(request);
    enum error error = learning.recipe ? OK : ERROR_MEMORY;
    while (!error && again)
        error = learn_once(&learning, text, &again);
    if (error && learning.recipe)
        recipe_learner_abandon(learning.recipe);
    if (error)
        feature_recipe_free(learning.recipe);
    else
        *ret_recipe = learning.recipe;
    return error;
}

/* The model's recipe, unless the URI requests something else. */
static enum error take_given(struct feature_recipe *given, const struct recipe_request *request,
                             struct feature_recipe **ret_recipe)
{
    char asked[RECIPE_REQUEST_BYTES], kept[RECIPE_REQUEST_BYTES];
    if (!recipe_request_is_empty(request) && !recipe_request_is_same(request, &given->request))
        return error_set(ERROR_CONFLICT,
                         "the URI has %s, and the model was trained with %s, which it keeps; leave "
                         "them out of the URI",
                         recipe_request_text(request, asked),
                         recipe_request_text(&given->request, kept));
    if (request->unseen_given && request->unseen_is_bad != given->request.unseen_is_bad)
        return feature_recipe_copy(given, request->unseen_is_bad, ret_recipe);
    feature_recipe_keep(given);
    *ret_recipe = given;
    return OK;
}

/* *ret_recipe stays NULL if features are to stay unchanged. */
static enum error find_recipe(const struct store_open_options *options, const char *text,
                              struct feature_recipe **ret_recipe)
{
    struct asked asked = {.stores = 0};
    enum error error = for_each_uri(text, read_request, &asked);
    if (!error && !options->keys_only) {
        if (options->recipe)
            error = take_given(options->recipe, &asked.request, ret_recipe);
        else if (!recipe_request_is_empty(&asked.request))
            error = learn(options, text, &asked.request, ret_recipe);
    }
    recipe_request_release(&asked.request);
    return error;
}

/* Not from a folder. */
static enum error open_itself(const char *uri, const struct store_open_options *options,
                              struct store **ret_store)
{
    struct store_open_options chosen = *options;
    chosen.recipe = NULL;
    enum error error = find_recipe(options, uri, &chosen.recipe);
    if (!error)
        error = open_all(&chosen, uri, ret_store);
    if (!error && chosen.recipe)
        feature_recipe_warn_of_unseen(chosen.recipe, store_info(*ret_store)->uri);
    feature_recipe_free(chosen.recipe);
    return error;
}

enum error store_check_uri(const char *uri)
{
    return for_each_uri(uri, check_uri, NULL);
}

enum error store_open(const char *uri, bool keys_only, struct store **ret_store)
{
    return store_open_with(uri, &(struct store_open_options){.keys_only = keys_only}, ret_store);
}

/* ---- kept in a folder --------------------------------------------------- */

static enum error note_file(void *context, const char *path)
{
    return cache_source_add_file(context, path);
}

static enum error note_files(struct cache_source *source, const struct store_ops *ops,
                             struct uri *uri, const struct store_files *files)
{
    enum error error = OK;
    char *const *paths = files->paths ? files->paths : &uri->path;
    size_t count = files->paths ? files->count : 1;
    for (size_t i = 0; i < count && !error; i++) {
        error = cache_source_add_file(source, paths[i]);
        if (!error && ops->other_files)
            error = ops->other_files(paths[i], &uri->query, note_file, source);
    }
    return error;
}

/* A URI's parameters, and its files. */
static enum error note_uri(void *context, const char *text)
{
    struct cache_source *source = context;
    struct uri uri;
    struct store_files files;
    const struct store_ops *ops;
    const char *parameters = strrchr(text, '?');
    enum error error = resolve(text, &uri, &ops, &files);
    if (error)
        return error;
    if (ops->endings) {
        error = cache_source_add_parameters(source, ops->scheme);
        if (!error)
            error = cache_source_add_parameters(source, parameters ? parameters : "");
        if (!error)
            error = note_files(source, ops, &uri, &files);
    } else {
        error = error_set(ERROR_UNAVAILABLE,
                          "%s: rows that do not come from a file are not kept "
                          "in a folder: nothing says whether they are still the same",
                          ops->scheme);
    }
    store_files_release(&files);
    uri_release(&uri);
    return error;
}

enum error store_note_source(const char *uri, struct cache_source *source)
{
    return for_each_uri(uri, note_uri, source);
}

static enum error open_for_kept(const char *uri, uint64_t cache_bytes,
                                struct feature_recipe *recipe, struct store **ret_store)
{
    return open_itself(
        uri, &(struct store_open_options){.cache = {.bytes = cache_bytes}, .recipe = recipe},
        ret_store);
}

/* A model's recipe also decides the rows' bytes. */
static enum error note_recipe(struct cache_source *source, const struct feature_recipe *recipe)
{
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    enum error error = recipe ? feature_recipe_print(recipe, &text) : OK;
    if (!error && recipe)
        error = cache_source_add_parameters(source, text.data);
    buffer_release(&text);
    return error;
}

static enum error open_kept(const char *uri, const struct store_open_options *options,
                            struct store **ret_store)
{
    struct cache_source source;
    struct kept_store_options kept = {.folder = options->cache.folder,
                                      .limit_bytes = options->cache.folder_limit_bytes,
                                      .cache_bytes = options->cache.bytes,
                                      .recipe = options->recipe,
                                      .open = open_for_kept};
    enum error error = cache_source_init(&source, uri);
    if (!error)
        error = store_note_source(uri, &source);
    if (!error)
        error = note_recipe(&source, options->recipe);
    if (!error)
        return kept_store_open(&source, &kept, ret_store);
    cache_source_release(&source);
    if (error != ERROR_UNAVAILABLE)
        return error;
    log_warning("%s", error_message());
    return open_itself(uri, options, ret_store);
}

enum error store_open_with(const char *uri, const struct store_open_options *options,
                           struct store **ret_store)
{
    const char *folder = options->cache.folder;
    bool kept = folder && folder[0] && !options->keys_only && options->column_count == 0;
    return kept ? open_kept(uri, options, ret_store) : open_itself(uri, options, ret_store);
}
