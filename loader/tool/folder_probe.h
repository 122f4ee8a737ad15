/* SPDX-License-Identifier: MIT */
/*
 * Does a folder do what Tombola relies on? Each probe tries one thing with files of its own in a
 * folder of its own below it, and says what it met. Times are those of this moment: what else uses
 * the disk or the server is in them.
 */
#ifndef LOADER_TOOL_FOLDER_PROBE_H
#define LOADER_TOOL_FOLDER_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/tool/mount_facts.h"

enum verdict {
    VERDICT_GOOD,
    VERDICT_SLOW,
    VERDICT_BAD
}; /* SLOW: it works, with something to say */

struct probe_result {
    enum verdict verdict;
    char says[600]; /* a sentence, and what to change */
    double value;   /* of a speed: in `unit` */
};

/* What the probes have: all lie in `folder`, which folder_probe_begin() makes. */
struct folder_probe {
    char parent[1024], folder[1100];
    struct mount_facts facts;
    size_t bytes;    /* of the file that is written and read for its speed */
    int64_t time_ms; /* of each measurement, at most about */
};

struct probe {
    const char *name; /* "rename" */
    const char *unit; /* of the value, as in JSON: "fsync_ms"; NULL: it has none */
    void (*run)(const struct folder_probe *probe, struct probe_result *ret_result);
};
extern const struct probe folder_probes[];
extern const size_t folder_probe_count;

/* ERROR_NOT_FOUND, ERROR_IO: there is no such folder, or it cannot be written. */
enum error folder_probe_begin(const char *folder, struct folder_probe *ret_probe) MUST_CHECK;
/* Removes what was made. */
void folder_probe_end(const struct folder_probe *probe);

#endif
