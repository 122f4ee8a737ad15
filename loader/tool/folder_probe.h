/* SPDX-License-Identifier: MIT */
/*
 * Does a folder do what Tombola relies on? Each probe tries one thing with files in its own
 * subfolder, and reports what it found. Times are momentary: they include other load on disk and
 * server.
 */
#ifndef LOADER_TOOL_FOLDER_PROBE_H
#define LOADER_TOOL_FOLDER_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/tool/mount_facts.h"

enum verdict { VERDICT_GOOD, VERDICT_SLOW, VERDICT_BAD }; /* SLOW: works, with a remark */

struct probe_result {
    enum verdict verdict;
    char says[600]; /* a sentence, and what to change */
    double value;   /* for a speed: in `unit` */
};

/* Shared by the probes: all files are in `folder`, which folder_probe_begin() creates. */
struct folder_probe {
    char parent[1024], folder[1100];
    struct mount_facts facts;
    size_t bytes;    /* of the file whose speed is measured */
    int64_t time_ms; /* per measurement, at most about */
};

struct probe {
    const char *name; /* "rename" */
    const char *unit; /* of the value, as in JSON: "fsync_ms"; NULL: no value */
    void (*run)(const struct folder_probe *probe, struct probe_result *ret_result);
};
extern const struct probe folder_probes[];
extern const size_t folder_probe_count;

/* ERROR_NOT_FOUND, ERROR_IO: the folder does not exist, or cannot be written. */
enum error folder_probe_begin(const char *folder, struct folder_probe *ret_probe) MUST_CHECK;
/* Removes what was made. */
void folder_probe_end(const struct folder_probe *probe);

#endif
