/* SPDX-License-Identifier: MIT */
#include "sampler/frame/shared_view.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"

/* The definition of a view. */
struct view_key {
    const struct frame *whole;
    int64_t rows_begin, rows_end;
    enum split split;
    const struct split_shares *shares; /* NULL without a split */
};

struct shared_view {
    struct shared_view *next;
    struct view_key key;
    int64_t holders;
    pthread_mutex_t opening; /* guards all below, until they are set */
    struct frame *view;      /* owned; NULL: not opened yet, or it failed */
    bool own_texts;
    struct label_texts texts; /* zeros unless own_texts */
};

/* All views, and their reference counts. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct shared_view *views;

/* ---- the list ----------------------------------------------------------- */

static bool is_same(const struct view_key *a, const struct view_key *b)
{
    return a->whole == b->whole && a->rows_begin == b->rows_begin && a->rows_end == b->rows_end &&
           a->split == b->split && a->shares == b->shares;
}

static struct shared_view *find(const struct view_key *key)
{
    struct shared_view *one = views;
    while (one && !is_same(&one->key, key))
        one = one->next;
    return one;
}

static struct shared_view *take(const struct view_key *key)
{
    struct shared_view *fresh = array_new(1, sizeof(*fresh), "a view of a frame");
    pthread_mutex_lock(&mutex);
    struct shared_view *one = find(key);
    if (!one && fresh) {
        *fresh = (struct shared_view){.next = views, .key = *key};
        pthread_mutex_init(&fresh->opening, NULL);
        views = one = fresh;
        fresh = NULL;
    }
    if (one)
        one->holders++;
    pthread_mutex_unlock(&mutex);
    free(fresh);
    return one;
}

void shared_view_put(struct shared_view *view)
{
    if (!view)
        return;
    pthread_mutex_lock(&mutex);
    bool last = --view->holders == 0;
    struct shared_view **link = &views;
    while (last && *link != view)
        link = &(*link)->next;
    if (last)
        *link = view->next;
    pthread_mutex_unlock(&mutex);
    if (!last)
        return;
    label_texts_release(&view->texts);
    frame_free(view->view);
    pthread_mutex_destroy(&view->opening);
    free(view);
}

/* ---- views -------------------------------------------------------------- */

static enum error open_texts(struct shared_view *view)
{
    view->own_texts = !frame_view_keeps_labels(view->view, view->key.whole);
    return view->own_texts ? label_texts_init(&view->texts, view->view) : OK;
}

/* The first user opens it; after a failure, the next one. */
static enum error open_once(struct shared_view *view)
{
    const struct view_key *key = &view->key;
    enum error error = OK;
    pthread_mutex_lock(&view->opening);
    if (!view->view) {
        error = frame_view(key->whole, key->rows_begin, key->rows_end, key->shares, key->split,
                           &view->view);
        if (!error)
            error = open_texts(view);
        if (error) {
            frame_free(view->view);
            view->view = NULL;
        }
    }
    pthread_mutex_unlock(&view->opening);
    return error;
}

enum error shared_view_take(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                            const struct split_shares *shares, enum split split,
                            struct shared_view **ret_view)
{
    struct view_key key = {
        .whole = whole,
        .rows_begin = rows_begin,
        .rows_end = rows_begin == 0 && rows_end == 0 ? frame_units(whole) : rows_end,
        .split = split,
        .shares = split != SPLIT_NONE ? shares : NULL,
    };
    struct shared_view *view = take(&key);
    if (!view)
        return ERROR_MEMORY;
    enum error error = open_once(view);
    if (error) {
        shared_view_put(view);
        return error;
    }
    *ret_view = view;
    return OK;
}

const struct frame *shared_view_frame(const struct shared_view *view)
{
    return view->view;
}

const struct label_texts *shared_view_texts(const struct shared_view *view)
{
    return view->own_texts ? &view->texts : NULL;
}
