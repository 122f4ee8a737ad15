/* SPDX-License-Identifier: MIT */
/* The input is an SQLite file. Whatever opens must give the same rows to scan and fetch; but of a
 * table that SQLite itself calls damaged, a search may miss what a walk finds. Then fetch must say
 * so. */
#include <sqlite3.h>

#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/fuzz_store.h"

#define INPUT_LIMIT_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* What SQLite's own check of the whole file says of the input. */
static bool is_damaged(void)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *check = NULL;
    bool is_sound = !sqlite3_open_v2(fuzz_path, &database, SQLITE_OPEN_READONLY, NULL) &&
                    !sqlite3_prepare_v2(database, "PRAGMA integrity_check(1)", -1, &check, NULL) &&
                    sqlite3_step(check) == SQLITE_ROW &&
                    strcmp((const char *)sqlite3_column_text(check, 0), "ok") == 0;
    sqlite3_finalize(check);
    sqlite3_close(database);
    return !is_sound;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char uri[1024];
    if (length > INPUT_LIMIT_BYTES)
        return 0;
    snprintf(uri, sizeof(uri), "sqlite:%s", fuzz_file_write(data, length));
    fuzz_store(uri, is_damaged);
    snprintf(uri, sizeof(uri), "sqlite:%s?element=i32", fuzz_path);
    fuzz_store(uri, is_damaged);
    snprintf(uri, sizeof(uri), "sqlite:%s?missing=mean&onehot=*", fuzz_path);
    fuzz_store(uri, is_damaged);
    return 0;
}
