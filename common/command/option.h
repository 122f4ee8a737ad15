/* SPDX-License-Identifier: MIT */
/* One row of a command's table of options (options.h). */
#ifndef COMMON_COMMAND_OPTION_H
#define COMMON_COMMAND_OPTION_H

#include <stdbool.h>

enum option_type {
    OPTION_TEXT,    /* const char *: borrowed until options_release() */
    OPTION_INTEGER, /* int64_t within [minimum, maximum], exact over all 64 bits */
    OPTION_REAL,    /* double within [minimum, maximum] */
    OPTION_FLAG,    /* bool */
    OPTION_CHOICE   /* const char *: one of `choices`, separated by '|' */
};

struct option {
    const char *name; /* with underscores: "learning_rate"; --help shows dashes */
    enum option_type type;
    void *target;                 /* receives the value; holds the default before options_parse() */
    const char *argument;         /* the value's name in --help: "SECONDS" */
    const char *help;             /* a few lines at most, without the default: --help adds it */
    long double minimum, maximum; /* both 0: no bounds; long double holds INT64_MAX exactly */
    const char *choices;          /* OPTION_CHOICE: "keep|drop|span" */
    const char *alias;            /* OPTION_CHOICE: NULL, or a synonym for one: "warn=warning" */
    bool *given;                  /* NULL, or set to whether anything but the default set it */
    bool required;                /* absent everywhere: ERROR_USAGE */
    bool repeated;                /* OPTION_TEXT: may be repeated on the command line; the target
                                   * gets all values, one per line */
    bool json;                    /* OPTION_TEXT: a JSON object */
    bool is_output;               /* OPTION_TEXT: an output file, so not "-" */
    const char *instead;          /* NULL, or an alternative option: if it comes from a stronger
                                   * source, this one is ignored */
};

/* A name that people try although the command has no such option. */
struct option_hint {
    const char *name;   /* with underscores: "batch_size" */
    const char *advice; /* follows "unknown option "batch-size": " */
};

#endif
