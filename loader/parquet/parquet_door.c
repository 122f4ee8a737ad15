/* SPDX-License-Identifier: MIT */
#include "loader/parquet/parquet_door.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#define MODULE "tombola_parquet.so"
#define OTHERWISE                                                                           \
    "; without it, make the file CSV (DuckDB: COPY (FROM 'x.parquet') TO 'x.csv'; pandas: " \
    "read_parquet(\"x.parquet\").to_csv(\"x.csv\", index=False))"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct parquet_module *loaded; /* NULL: not yet */

static void enter(void)
{
    pthread_mutex_lock(&lock);
}

static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* fork() waits while another thread loads: the child would have a lock that is never released, and
 * half a module. */
static void follow_forks(void)
{
    pthread_atfork(enter, leave, leave);
}

/* The module of the build, if the program has not been installed yet. */
static bool find_beside(char out[PATH_MAX])
{
    char program[PATH_MAX - sizeof("/../loader/parquet/" MODULE)];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    char *name = strrchr(program, '/');
    if (!name)
        return false;
    *name = '\0';
    snprintf(out, PATH_MAX, "%s/../loader/parquet/" MODULE, program);
    return access(out, R_OK) == 0;
}

static enum error load(const char *path)
{
    if (access(path, F_OK) != 0)
        return error_set(ERROR_UNAVAILABLE,
                         "this build has no Parquet: there is no %s, which is made where configure "
                         "finds Arrow's C++ library (--with-arrow)" OTHERWISE,
                         path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return error_set(ERROR_UNAVAILABLE, "Parquet cannot be read: %s" OTHERWISE, dlerror());
    const struct parquet_module *found = dlsym(handle, PARQUET_MODULE_SYMBOL);
    if (!found) {
        dlclose(handle);
        return error_set(ERROR_UNAVAILABLE,
                         "Parquet cannot be read: %s is from another version of Tombola; build it "
                         "again" OTHERWISE,
                         path);
    }
    loaded = found;
    return OK;
}

enum error parquet_door_open(const struct parquet_module **ret_module)
{
    char beside[PATH_MAX];
    enum error error = OK;
    pthread_once(&once, follow_forks);
    enter();
    if (!loaded) {
        const char *path = getenv("TOMBOLA_PARQUET_MODULE");
        if (!path)
            path = find_beside(beside) ? beside : PKGLIBDIR "/" MODULE;
        error = load(path);
    }
    *ret_module = loaded;
    leave();
    return error;
}
