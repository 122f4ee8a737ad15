/* SPDX-License-Identifier: MIT */
/* `tombola-loader cache`: the row caches of a folder, for people or as JSON; removes some. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/command/options.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/tool/cache_survey.h"
#include "loader/tool/commands.h"

#define JSON_LIMIT_BYTES ((size_t)1 << 30)
#define KEY_DIGITS (2 * CACHE_KEY_BYTES)
#define SHOWN_DIGITS 12
#define LEAST_DIGITS 4 /* least digits of a key given to --remove */
#define TIME_BYTES 24

struct cache_request {
    const char *folder;
    const char *remove; /* one per line; NULL: none */
    int64_t prune_bytes;
    bool prunes, json;
};

/* ---- a list ------------------------------------------------------------- */

static const char *time_text(int64_t since_1970_ns, char out[TIME_BYTES])
{
    time_t seconds = (time_t)(since_1970_ns / 1000000000);
    struct tm when;
    if (!gmtime_r(&seconds, &when) || strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &when) == 0)
        out[0] = '\0';
    return out;
}

static void print_one(struct surveyed_cache *cache)
{
    const struct cache_entry *entry = cache->entry;
    char used[TIME_BYTES], rows[TEXT_INTEGER_BYTES + 1] = "";
    if (cache->facts.source) {
        *text_write_integer(rows, cache->facts.rows) = '\0';
        text_mask_controls(cache->facts.source);
    }
    printf("%-*.*s  %-10s  %10s  %14" PRIu64 "  %-20s  %-4s  %s\n", SHOWN_DIGITS, SHOWN_DIGITS,
           entry->name, cache->state, rows, entry->bytes, time_text(entry->used_ns, used),
           entry->is_open ? "yes" : "no", cache->facts.source ? cache->facts.source : "");
}

static void print_text(const struct cache_folder *folder, const struct cache_survey *survey)
{
    if (survey->count > 0)
        printf("%-*s  %-10s  %10s  %14s  %-20s  %-4s  %s\n", SHOWN_DIGITS, "key", "state", "rows",
               "bytes", "last used", "open", "store");
    for (size_t i = 0; i < survey->count; i++)
        print_one(&survey->caches[i]);
    printf("%zu %s, %" PRIu64 " bytes, in %s\n", survey->count,
           text_plural((int64_t)survey->count, "cache", "caches"), survey->bytes, folder->path);
}

static void add_json(struct buffer *json, const struct surveyed_cache *cache)
{
    const struct cache_entry *entry = cache->entry;
    char used[TIME_BYTES];
    buffer_print(json, "{\"key\":\"%.*s\",\"path\":", KEY_DIGITS, entry->name);
    json_add_string(json, entry->path);
    buffer_print(json, ",\"state\":\"%s\",\"open\":%s,\"bytes\":%" PRIu64 ",\"used\":\"%s\"",
                 cache->state, entry->is_open ? "true" : "false", entry->bytes,
                 time_text(entry->used_ns, used));
    if (cache->facts.source) {
        buffer_print(json, ",\"rows\":%" PRId64 ",\"features\":%zu,\"store\":", cache->facts.rows,
                     cache->facts.features);
        json_add_string(json, cache->facts.source);
    }
    buffer_add_text(json, "}");
}

static enum error print_json(const struct cache_folder *folder, const struct cache_survey *survey)
{
    struct buffer json = BUFFER_INIT(JSON_LIMIT_BYTES);
    buffer_add_text(&json, "{\"folder\":");
    json_add_string(&json, folder->path);
    buffer_print(&json, ",\"bytes\":%" PRIu64 ",\"caches\":[", survey->bytes);
    for (size_t i = 0; i < survey->count; i++) {
        buffer_add_text(&json, i > 0 ? "," : "");
        add_json(&json, &survey->caches[i]);
    }
    enum error error = buffer_add_text(&json, "]}\n");
    if (!error)
        fputs(json.data, stdout);
    buffer_release(&json);
    return error;
}

static enum error show(const struct cache_folder *folder, bool json)
{
    struct cache_survey survey;
    enum error error = cache_survey_make(&survey, folder);
    if (error)
        return error;
    if (json)
        error = print_json(folder, &survey);
    else
        print_text(folder, &survey);
    cache_survey_release(&survey);
    return error;
}

/* ---- removing ----------------------------------------------------------- */

/* What the argument of --remove names: all, the useless ones, or one. */
struct choice {
    const char *word;
    size_t length;
    bool is_all, is_stale;
};

static bool is_word(const struct choice *choice, const char *word)
{
    return choice->length == strlen(word) && strncmp(choice->word, word, choice->length) == 0;
}

/* The start of a key, or the file's name. */
static enum error check_name(const struct choice *choice)
{
    size_t digits = strspn(choice->word, "0123456789abcdef");
    bool is_beginning = digits == choice->length && digits >= LEAST_DIGITS && digits <= KEY_DIGITS;
    bool is_file = digits == KEY_DIGITS && strncmp(choice->word + digits, ".rows", 5) == 0;
    if (choice->is_all || choice->is_stale || is_beginning || is_file)
        return OK;
    return error_set(ERROR_USAGE,
                     "--remove %.*s: give all, stale, or the first %d digits or more of a key",
                     (int)choice->length, choice->word, LEAST_DIGITS);
}

static bool names(const struct choice *choice, const struct surveyed_cache *cache)
{
    if (choice->is_all)
        return true;
    if (choice->is_stale)
        return cache->worth == CACHE_STALE || cache->worth == CACHE_DAMAGED ||
               cache->entry->state == CACHE_LEFT;
    return strncmp(cache->entry->name, choice->word, choice->length) == 0;
}

static enum error check_count(const struct choice *choice, const struct cache_survey *survey,
                              const struct cache_folder *folder)
{
    size_t found = 0;
    for (size_t i = 0; i < survey->count; i++)
        found += names(choice, &survey->caches[i]);
    if (choice->is_all || choice->is_stale || found == 1)
        return OK;
    if (found > 1)
        return error_set(ERROR_USAGE, "--remove %.*s: %zu caches of %s are called so; more digits",
                         (int)choice->length, choice->word, found, folder->path);
    return error_set(ERROR_NOT_FOUND, "--remove %.*s: no cache of %s has such a key",
                     (int)choice->length, choice->word, folder->path);
}

/* With `all` and `stale`, caches in use stay, with a warning. */
static enum error remove_one(const struct choice *choice, const struct surveyed_cache *cache)
{
    enum error error = cache_entry_remove(cache->entry);
    if (!error)
        log_info("removed %s, %" PRIu64 " bytes", cache->entry->path, cache->entry->bytes);
    if (error != ERROR_CONFLICT || !(choice->is_all || choice->is_stale))
        return error;
    log_warning("%s", error_message());
    return OK;
}

static enum error remove_chosen(const struct cache_folder *folder, const char *word, size_t length)
{
    struct cache_survey survey;
    struct choice choice = {.word = word, .length = length};
    choice.is_all = is_word(&choice, "all");
    choice.is_stale = is_word(&choice, "stale");
    enum error error = check_name(&choice);
    if (!error)
        error = cache_survey_make(&survey, folder);
    if (error)
        return error;
    error = check_count(&choice, &survey, folder);
    for (size_t i = 0; i < survey.count && !error; i++) {
        if (names(&choice, &survey.caches[i]))
            error = remove_one(&choice, &survey.caches[i]);
    }
    cache_survey_release(&survey);
    return error;
}

static enum error remove_all(const struct cache_folder *folder, const char *words)
{
    enum error error = OK;
    for (const char *at = words; *at && !error;) {
        size_t length = strcspn(at, "\n");
        error = remove_chosen(folder, at, length);
        at += length + (at[length] == '\n');
    }
    return error;
}

/* ---- the command -------------------------------------------------------- */

static enum error work(const struct cache_request *request)
{
    struct cache_folder folder;
    enum error error = cache_folder_open(&folder, request->folder);
    if (error)
        return error;
    if (request->remove)
        error = remove_all(&folder, request->remove);
    if (!error && request->prunes)
        error = cache_folder_prune(&folder, (uint64_t)request->prune_bytes);
    if (!error)
        error = show(&folder, request->json);
    cache_folder_release(&folder);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    struct cache_request request = {.folder = NULL};
    const struct option options[] = {
        {.name = "cache",
         .type = OPTION_TEXT,
         .target = &request.folder,
         .argument = "DIR",
         .help = "the folder given to pull and train as --cache",
         .required = true},
        {.name = "json",
         .type = OPTION_FLAG,
         .target = &request.json,
         .help = "print one JSON object"},
        {.name = "remove",
         .type = OPTION_TEXT,
         .target = &request.remove,
         .argument = "KEY|stale|all",
         .help = "caches to remove: one, by the first digits of its key; stale: those "
                 "whose store has changed, and damaged ones; or all. A cache that a "
                 "program has open is kept",
         .repeated = true},
        {.name = "prune",
         .type = OPTION_INTEGER,
         .target = &request.prune_bytes,
         .given = &request.prunes,
         .argument = "BYTES",
         .help = "remove the least recently used until the rest take at most this much",
         .minimum = 1,
         .maximum = (long double)INT64_MAX},
    };
    enum error error = options_parse(program, &command_cache, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, NULL);
    return error ? error : work(&request);
}

const struct command command_cache = {
    .name = "cache",
    .summary = "list the row caches of a folder (--cache DIR), and remove some",
    .details =
        "  tombola-loader cache --cache /var/tmp/rows\n"
        "  tombola-loader cache --cache /var/tmp/rows --remove stale --prune 10000000000\n"
        "\n"
        "  current     in use by any program that opens its store\n"
        "  stale       a file of its store is gone or has been modified since\n"
        "  unknown     its store's path leads elsewhere from here, or the cache was made by "
        "another\n"
        "              version or holds rows prepared for a model\n"
        "  damaged     its checksums do not match; no program reads it\n"
        "  being made  a program is writing it\n"
        "  left over   its program was killed; the next program that makes a cache removes it\n",
    .run = run,
};
