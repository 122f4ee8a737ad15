/* SPDX-License-Identifier: MIT */
/* `tombola-loader check DIR`: does a folder, perhaps on a network, do what Tombola relies on? */
#include <stdio.h>

#include "common/buffer.h"
#include "common/command/options.h"
#include "common/hang.h"
#include "common/json.h"
#include "common/stop.h"
#include "loader/tool/commands.h"
#include "loader/tool/folder_probe.h"

#define JSON_LIMIT_BYTES (1 << 20)
#define MEGABYTES_MOST 65536

static const char *const verdict_names[] = {"good", "note", "bad"};

static void add_json(struct buffer *json, const struct probe *probe,
                     const struct probe_result *result)
{
    buffer_print(json, "%s{\"check\":\"%s\",\"verdict\":\"%s\",\"says\":",
                 json->data[json->length - 1] == '[' ? "" : ",", probe->name,
                 verdict_names[result->verdict]);
    json_add_string(json, result->says);
    if (probe->unit && result->verdict != VERDICT_BAD)
        buffer_print(json, ",\"%s\":%.6g", probe->unit, result->value);
    buffer_add_text(json, "}");
}

/* Each probe is shown before it runs: a folder may hang. */
static void run_one(const struct folder_probe *folder, const struct probe *probe, bool shows,
                    struct probe_result *result)
{
    struct hang hang;
    *result = (struct probe_result){.verdict = VERDICT_GOOD};
    if (shows)
        printf("%-11s ", probe->name);
    fflush(stdout);
    hang_begin(&hang, HANG_MS, "while the check of `%s` hangs in %s", probe->name, folder->parent);
    probe->run(folder, result);
    hang_end(&hang);
    if (shows)
        printf("%-5s %s\n", verdict_names[result->verdict], result->says);
}

static enum error run_all(const struct folder_probe *folder, struct buffer *json)
{
    size_t bad = 0;
    for (size_t i = 0; i < folder_probe_count && !stop_requested(); i++) {
        struct probe_result result;
        run_one(folder, &folder_probes[i], !json, &result);
        bad += result.verdict == VERDICT_BAD;
        if (json)
            add_json(json, &folder_probes[i], &result);
    }
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while checking %s", folder->parent);
    if (bad > 0)
        return error_set(ERROR_IO, "%s: %zu of %zu checks are bad", folder->parent, bad,
                         folder_probe_count);
    return OK;
}

static enum error check(const struct folder_probe *folder, bool json)
{
    struct buffer out = BUFFER_INIT(JSON_LIMIT_BYTES);
    if (!json) {
        printf("%s: %s (%s), %s\n", folder->parent, folder->facts.type, folder->facts.source,
               folder->facts.options);
        return run_all(folder, NULL);
    }
    buffer_add_text(&out, "{\"folder\":");
    json_add_string(&out, folder->parent);
    buffer_add_text(&out, ",\"type\":");
    json_add_string(&out, folder->facts.type);
    buffer_add_text(&out, ",\"source\":");
    json_add_string(&out, folder->facts.source);
    buffer_add_text(&out, ",\"options\":");
    json_add_string(&out, folder->facts.options);
    buffer_add_text(&out, ",\"checks\":[");
    enum error error = run_all(folder, &out);
    if (!buffer_add_text(&out, "]}\n"))
        fputs(out.data, stdout);
    buffer_release(&out);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    bool json = false;
    int64_t megabytes = 64;
    double seconds = 1;
    char **words;
    struct folder_probe folder;
    const struct option options[] = {
        {.name = "json", .type = OPTION_FLAG, .target = &json, .help = "print one JSON object"},
        {.name = "megabytes",
         .type = OPTION_INTEGER,
         .target = &megabytes,
         .argument = "N",
         .minimum = 1,
         .maximum = MEGABYTES_MOST,
         .help = "size of the file written and read to measure speed"},
        {.name = "seconds",
         .type = OPTION_REAL,
         .target = &seconds,
         .argument = "SECONDS",
         .minimum = 0,
         .maximum = 3600,
         .help = "approximate duration of each measurement"},
    };
    enum error error = options_parse(program, &command_check, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, &words);
    if (!error)
        error = folder_probe_begin(words[0], &folder);
    if (error)
        return error;
    folder.bytes = (size_t)megabytes << 20;
    folder.time_ms = (int64_t)(seconds * 1e3);
    error = check(&folder, json);
    folder_probe_end(&folder);
    return error;
}

const struct command command_check = {
    .name = "check",
    .positional = "DIR",
    .summary =
        "test whether a folder does what stores, --state and logdirs rely on, on NFS above all",
    .details =
        "  tombola-loader check /datanfs\n"
        "Each line is `good`, `note` (works, could be better) or `bad` (Tombola relies on it; the\n"
        "line says what to change). Exit status 1 if any line is bad. Run it on every machine "
        "that\n"
        "mounts the folder.\n",
    .run = run,
    .ends_anywhere = true,
};
