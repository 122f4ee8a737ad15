/* SPDX-License-Identifier: MIT */
/*
 * libtombola on top of feed.h: the public structs are the feed's own, member for member, so a batch
 * is delivered without a copy or an allocation.
 */
#include "loader/tombola.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#include "common/array.h"
#include "common/log.h"
#include "loader/batch_copy.h"
#include "loader/caller_options.h"
#include "loader/column/feature_recipe.h"
#include "loader/device/device.h"
#include "loader/feed/feed.h"
#include "loader/feed/rank_state.h"
#include "loader/store/store.h"
#include "loader/store_open.h"

#define STATE_BYTES_LIMIT (64 << 20)

#define SAME_MEMBER(member)                                                                       \
    _Static_assert(offsetof(struct tombola_batch, member) == offsetof(struct feed_batch, member), \
                   #member)
SAME_MEMBER(rows);
SAME_MEMBER(ids);
SAME_MEMBER(labels);
SAME_MEMBER(features);
SAME_MEMBER(epoch);
SAME_MEMBER(first);
SAME_MEMBER(index);
SAME_MEMBER(seq);
SAME_MEMBER(attempt);
SAME_MEMBER(device_labels);
SAME_MEMBER(weights);
SAME_MEMBER(groups);
SAME_MEMBER(device_weights);
SAME_MEMBER(device_groups);
SAME_MEMBER(width);
SAME_MEMBER(lengths);
SAME_MEMBER(device_lengths);
SAME_MEMBER(round_epoch);
_Static_assert(sizeof(struct tombola_batch) == sizeof(struct feed_batch), "a batch");
_Static_assert((int)TOMBOLA_USAGE == ERROR_USAGE && (int)TOMBOLA_INPUT == ERROR_INPUT &&
                   (int)TOMBOLA_NOT_FOUND == ERROR_NOT_FOUND &&
                   (int)TOMBOLA_CONFLICT == ERROR_CONFLICT && (int)TOMBOLA_IO == ERROR_IO &&
                   (int)TOMBOLA_NO_SPACE == ERROR_NO_SPACE && (int)TOMBOLA_MEMORY == ERROR_MEMORY &&
                   (int)TOMBOLA_NETWORK == ERROR_NETWORK && (int)TOMBOLA_TIMEOUT == ERROR_TIMEOUT &&
                   (int)TOMBOLA_UNAVAILABLE == ERROR_UNAVAILABLE &&
                   (int)TOMBOLA_CANCELLED == ERROR_CANCELLED && (int)TOMBOLA_END == ERROR_END,
               "codes");
_Static_assert((int)TOMBOLA_LEASE == FEED_LEASE && (int)TOMBOLA_INDEX == FEED_INDEX &&
                   (int)TOMBOLA_DRAW == FEED_DRAW && (int)TOMBOLA_BAD_ROWS_SKIP == BAD_ROWS_SKIP &&
                   (int)TOMBOLA_BAD_ROWS_REPLACE == BAD_ROWS_REPLACE &&
                   (int)TOMBOLA_LENGTHS_VARY == LENGTHS_VARY &&
                   (int)TOMBOLA_LENGTHS_LIMITED == LENGTHS_LIMITED &&
                   (int)TOMBOLA_U8 == ELEMENT_U8 && (int)TOMBOLA_F32 == ELEMENT_F32 &&
                   (int)TOMBOLA_I32 == ELEMENT_I32 && (int)TOMBOLA_LABEL_NONE == LABEL_NONE &&
                   (int)TOMBOLA_LABEL_TEXT == LABEL_TEXT && (int)TOMBOLA_LABELS_I64 == LABELS_I64 &&
                   (int)TOMBOLA_LABELS_BY_KIND == LABELS_BY_KIND &&
                   (int)TOMBOLA_LABELS_ONE_HOT_U8 == LABELS_ONE_HOT_U8 &&
                   (int)TOMBOLA_WEIGHTS_NONE == WEIGHTS_NONE &&
                   (int)TOMBOLA_WEIGHTS_F32 == WEIGHTS_F32 &&
                   (int)TOMBOLA_WEIGHTS_F64 == WEIGHTS_F64,
               "enumerations");
_Static_assert(LOG_DEBUG == 0 && LOG_INFO == 1 && LOG_WARNING == 2 && LOG_ERROR == 3, "levels");

/* A queue for one of the caller's streams. */
struct caller_queue {
    struct device_queue *queue;
    void *stream;
};

struct tombola_feed {
    struct store *store;
    struct device *device;
    struct feed *feed;
    struct caller_queue next, put; /* of tombola_feed_next() and tombola_feed_put() */
    pthread_mutex_t lock;          /* guards `put` and the members below */
    size_t out;                    /* batches */
    bool closed;                   /* the last batch that is put back frees the feed */
    bool by_index;
    struct rank_state state;               /* by_index */
    struct buffer state_text, recipe_text; /* `recipe_text` empty: features are unchanged */
    bool expand, groups;
    enum weight_element weights;
    int64_t features; /* of the store: a row's shape if it has no other */
    unsigned forks;   /* this process's count of forks at open */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned forks;

/* In the child, whose other threads are gone. */
static void count_fork(void)
{
    forks++;
}

/* A library logs less than a program. */
static void begin_once(void)
{
    log_set_level(LOG_WARNING);
    pthread_atfork(NULL, NULL, count_fork);
}

/* A call begins: does the feed belong to this process? Its threads and connections are its
 * opener's. *ret_gpu is for leave(). */
static enum error enter(const struct tombola_feed *feed, const char *call, int *ret_gpu)
{
    if (feed->forks != forks)
        return error_set(ERROR_USAGE,
                         "%s: this process was forked after the feed was opened, which is its "
                         "parent's; open one here",
                         call);
    bool cuda = feed->device && feed->device->kind == DEVICE_CUDA;
    *ret_gpu = device_choice(cuda ? "cuda" : "cpu");
    return OK;
}

/* A call ends: restores the thread's choice of GPU. */
static void leave(const struct tombola_feed *feed, int gpu)
{
    device_choose(feed->device, gpu);
}

/* ---- opening ------------------------------------------------------------ */

static enum error open_store(struct tombola_feed *feed, const struct tombola_options *options,
                             const struct store_cache *cache)
{
    struct store_open_options how = {.cache = *cache};
    enum error error =
        options->recipe ? feature_recipe_parse(options->recipe, "the recipe", &how.recipe) : OK;
    if (!error)
        error = store_open_with(options->store_uri, &how, &feed->store);
    feature_recipe_free(how.recipe);
    if (!error && store_info(feed->store)->recipe)
        error = feature_recipe_print(store_info(feed->store)->recipe, &feed->recipe_text);
    return error;
}

/* Where the batches begin: as the options say, or as in their state, whose stream is expected. */
static enum error begin_state(struct rank_state *state, const struct tombola_options *options,
                              struct sampler_stream *ret_expected)
{
    int64_t world = options->world > 0 ? options->world : 1;
    *state = (struct rank_state){.first = options->first_index,
                                 .rank = options->part * world + options->rank,
                                 .world = world * (options->parts > 0 ? options->parts : 1),
                                 .batch_rows = (int64_t)options->batch_rows,
                                 .bucket_window = (int64_t)options->bucket_window};
    return options->state ? rank_state_parse(state, options->state, ret_expected) : OK;
}

static enum error open_parts(struct tombola_feed *feed, const struct tombola_options *options)
{
    struct caller_caches caches;
    enum error error = caller_options_caches(options, &caches);
    if (!error)
        error = open_store(feed, options, &caches.kept);
    if (!error)
        error = device_open(options->device, &feed->device);
    if (!error)
        error = device_queue_borrow(feed->device, NULL, &feed->next.queue);
    if (!error)
        error = device_queue_borrow(feed->device, NULL, &feed->put.queue);
    if (error)
        return error;
    feed->expand = options->expand != 0 || options->channels > 0;
    feed->weights = (enum weight_element)options->weights;
    feed->groups = options->groups != 0;
    feed->features = (int64_t)store_info(feed->store)->features;
    feed->by_index = options->pull == TOMBOLA_INDEX;
    struct sampler_stream expected;
    error = begin_state(&feed->state, options, &expected);
    if (error)
        return error;
    struct feed_options inner = {.sampler_url = options->sampler_url,
                                 .stream = options->stream,
                                 .store = feed->store,
                                 .device = feed->device,
                                 .pull = (enum feed_pull)options->pull,
                                 .worker = options->worker,
                                 .token = options->token,
                                 .authority = options->authority,
                                 .first_index = feed->state.first,
                                 .rank = options->rank,
                                 .world = options->world,
                                 .part = options->part,
                                 .parts = options->parts,
                                 .pad = options->pad != 0,
                                 .done = &feed->state.begun,
                                 .expected = options->state ? &expected : NULL,
                                 .batches = options->batches > 0 ? options->batches : -1,
                                 .batch_rows = options->batch_rows,
                                 .slots = options->slots,
                                 .fetchers = options->fetchers,
                                 .cache_bytes = caches.kept.bytes,
                                 .reserve_bytes = caches.reserve_bytes,
                                 .bad_rows = (enum bad_rows)options->bad_rows,
                                 .expand = feed->expand,
                                 .scale = options->scale,
                                 .patience_ms = options->patience_ms,
                                 .trust_labels = options->trust_labels != 0,
                                 .wants_integers = true,
                                 .resident_bytes = caches.resident_bytes,
                                 .labels = (enum label_element)options->labels,
                                 .classes = options->classes,
                                 .bucket_window = options->bucket_window,
                                 .weights = feed->weights,
                                 .groups = feed->groups,
                                 .moments = {.channels = options->channels,
                                             .mean = options->mean,
                                             .deviation = options->deviation}};
    return feed_open(&inner, &feed->feed);
}

int tombola_feed_open(const struct tombola_options *given, struct tombola_feed **ret_feed)
{
    struct tombola_options options;
    pthread_once(&once, begin_once);
    if (!ret_feed)
        return error_set(ERROR_USAGE, "tombola_feed_open: ret_feed is NULL");
    enum error error = caller_options_take(given, &options);
    if (error)
        return error;
    struct tombola_feed *feed = array_new(1, sizeof(*feed), "a feed");
    if (!feed)
        return ERROR_MEMORY;
    feed->forks = forks;
    feed->state_text = (struct buffer)BUFFER_INIT(STATE_BYTES_LIMIT);
    feed->recipe_text = (struct buffer)BUFFER_INIT(RECIPE_JSON_LIMIT);
    pthread_mutex_init(&feed->lock, NULL);
    int gpu = device_choice(options.device);
    error = open_parts(feed, &options);
    leave(feed, gpu);
    if (error) {
        struct error_report report;
        error_report_take(error, &report);
        tombola_feed_close(feed);
        return error_restore(&report);
    }
    *ret_feed = feed;
    return TOMBOLA_OK;
}

static void free_feed(struct tombola_feed *feed, int gpu)
{
    feed_close(feed->feed);
    if (feed->device) {
        device_queue_free(feed->device, feed->next.queue);
        device_queue_free(feed->device, feed->put.queue);
    }
    leave(feed, gpu);
    device_close(feed->device);
    store_close(feed->store);
    rank_state_release(&feed->state);
    buffer_release(&feed->state_text);
    buffer_release(&feed->recipe_text);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

void tombola_feed_close(struct tombola_feed *feed)
{
    if (!feed)
        return;
    int gpu = -1;
    if (enter(feed, "tombola_feed_close", &gpu)) {
        log_warning("%s", error_message()); /* its resources belong to another process */
        return;
    }
    pthread_mutex_lock(&feed->lock);
    bool is_last = feed->out == 0;
    feed->closed = true;
    if (!is_last) {
        (feed_owes(feed->feed) ? feed_cancel : feed_end)(feed->feed);
        leave(feed, gpu);
    }
    pthread_mutex_unlock(&feed->lock); /* from here on another thread may free it */
    if (is_last)
        free_feed(feed, gpu);
}

/* ---- batches ------------------------------------------------------------ */

/* The queue is replaced only when the stream changes. */
static enum error follow_stream(const struct tombola_feed *feed, struct caller_queue *caller,
                                void *stream)
{
    struct device_queue *queue = NULL;
    if (stream == caller->stream)
        return OK;
    enum error error = device_queue_borrow(feed->device, stream, &queue);
    if (error)
        return error;
    device_queue_free(feed->device, caller->queue);
    *caller = (struct caller_queue){queue, stream};
    return OK;
}

int tombola_feed_next(struct tombola_feed *feed, void *stream, int64_t timeout_ms,
                      const struct tombola_batch **ret_batch)
{
    const struct feed_batch *batch;
    if (!feed || !ret_batch)
        return error_set(ERROR_USAGE, "tombola_feed_next: %s is NULL",
                         feed ? "ret_batch" : "the feed");
    int gpu = -1;
    enum error error = enter(feed, "tombola_feed_next", &gpu);
    if (error)
        return error;
    error = follow_stream(feed, &feed->next, stream);
    if (!error)
        error = feed_next_within(feed->feed, feed->next.queue, timeout_ms, &batch);
    leave(feed, gpu);
    if (error)
        return feed_is_not_yet(error) ? (int)TOMBOLA_NOT_YET : (int)error;
    pthread_mutex_lock(&feed->lock);
    feed->out++;
    pthread_mutex_unlock(&feed->lock);
    *ret_batch = (const struct tombola_batch *)batch;
    return TOMBOLA_OK;
}

/* Under the lock, as the next four. The number under which a batch that is about to be settled
 * counts as trained; -1: it does not count, or did already. */
static enum error number_to_count(const struct tombola_feed *feed, const struct feed_batch *batch,
                                  int64_t *ret_number)
{
    *ret_number = -1;
    if (!feed->by_index || feed_is_settled(feed->feed, batch))
        return OK;
    return feed_number(feed->feed, batch, ret_number);
}

static enum error count(struct tombola_feed *feed, int64_t number)
{
    return number < 0 ? OK : rank_state_add(&feed->state, number);
}

static enum error settle_trained(struct tombola_feed *feed, const struct feed_batch *batch)
{
    int64_t number;
    enum error error = number_to_count(feed, batch, &number);
    if (!error)
        error = feed_settle(feed->feed, batch, true);
    return error ? error : count(feed, number);
}

/* As drop(): the batch is back whatever the error, unless it is ERROR_USAGE. */
static enum error put_back(struct tombola_feed *feed, const struct feed_batch *batch)
{
    int64_t number;
    enum error error = number_to_count(feed, batch, &number);
    if (!error)
        error = feed_put(feed->feed, feed->put.queue, batch);
    return error ? error : count(feed, number);
}

static enum error drop(struct tombola_feed *feed, const struct feed_batch *batch)
{
    return feed_drop(feed->feed, feed->put.queue, batch);
}

static int take_back(struct tombola_feed *feed, void *stream, const struct tombola_batch *batch,
                     const char *call,
                     enum error (*take)(struct tombola_feed *feed, const struct feed_batch *batch))
{
    if (!feed)
        return error_set(ERROR_USAGE, "%s: the feed is NULL", call);
    int gpu = -1;
    enum error error = enter(feed, call, &gpu);
    if (error)
        return error;
    pthread_mutex_lock(&feed->lock);
    error = follow_stream(feed, &feed->put, stream);
    if (!error) {
        error = take(feed, (const struct feed_batch *)batch);
        feed->out -= error != ERROR_USAGE;
    }
    bool is_last = feed->closed && feed->out == 0;
    if (!is_last)
        leave(feed, gpu);
    pthread_mutex_unlock(&feed->lock); /* from here on another thread may free it */
    if (is_last)
        free_feed(feed, gpu);
    return error == ERROR_USAGE ? error_prefix(error, "%s: ", call) : error;
}

int tombola_feed_put(struct tombola_feed *feed, void *stream, const struct tombola_batch *batch)
{
    return take_back(feed, stream, batch, "tombola_feed_put", put_back);
}

int tombola_feed_drop(struct tombola_feed *feed, void *stream, const struct tombola_batch *batch)
{
    return take_back(feed, stream, batch, "tombola_feed_drop", drop);
}

int tombola_feed_settle(struct tombola_feed *feed, const struct tombola_batch *batch, int trained)
{
    if (!feed)
        return error_set(ERROR_USAGE, "tombola_feed_settle: the feed is NULL");
    int gpu = -1;
    enum error error = enter(feed, "tombola_feed_settle", &gpu);
    if (error)
        return error;
    pthread_mutex_lock(&feed->lock);
    const struct feed_batch *inner = (const struct feed_batch *)batch;
    error = trained ? settle_trained(feed, inner) : feed_settle(feed->feed, inner, false);
    leave(feed, gpu);
    pthread_mutex_unlock(&feed->lock);
    return error == ERROR_USAGE ? error_prefix(error, "tombola_feed_settle: ") : error;
}

/* ---- copies ------------------------------------------------------------- */

static enum error copy_rows(struct tombola_feed *feed, const struct tombola_batch *batch,
                            struct tombola_batch **ret_copy)
{
    const struct store_info *info = store_info(feed->store);
    struct batch_form form = {
        .features = batch->width * element_bytes(feed->expand ? ELEMENT_F32 : info->element),
        .device_labels = label_element_bytes(feed_labels(feed->feed), feed_classes(feed->feed)),
        .weights = weight_element_bytes(feed->weights)};
    return batch_copy(&form, feed->device, feed->put.queue, batch, ret_copy);
}

int tombola_batch_copy(struct tombola_feed *feed, void *stream, const struct tombola_batch *batch,
                       struct tombola_batch **ret_copy)
{
    static const char call[] = "tombola_batch_copy";
    int64_t number;
    int gpu = -1;
    if (!feed || !ret_copy)
        return error_set(ERROR_USAGE, "%s: %s is NULL", call, feed ? "ret_copy" : "the feed");
    enum error error = enter(feed, call, &gpu);
    if (error)
        return error;
    pthread_mutex_lock(&feed->lock);
    error = follow_stream(feed, &feed->put, stream);
    if (!error) /* has the caller got it? */
        error = feed_number(feed->feed, (const struct feed_batch *)batch, &number);
    if (!error)
        error = copy_rows(feed, batch, ret_copy);
    leave(feed, gpu);
    pthread_mutex_unlock(&feed->lock);
    return error == ERROR_USAGE ? error_prefix(error, "%s: ", call) : error;
}

void tombola_batch_free(struct tombola_batch *copy)
{
    free(copy);
}

void tombola_feed_interrupt(struct tombola_feed *feed)
{
    if (feed && feed->forks == forks)
        feed_interrupt(feed->feed);
}

/* ---- progress ----------------------------------------------------------- */

int tombola_feed_state(struct tombola_feed *feed, const char **ret_state)
{
    if (!feed || !ret_state)
        return error_set(ERROR_USAGE, "tombola_feed_state: %s is NULL",
                         feed ? "ret_state" : "the feed");
    if (!feed->by_index)
        return error_set(ERROR_USAGE,
                         "tombola_feed_state is for TOMBOLA_INDEX: the sampler "
                         "records leases and draws itself (POST /streams/NAME/checkpoint)");
    int gpu = -1;
    enum error error = enter(feed, "tombola_feed_state", &gpu);
    if (error)
        return error;
    leave(feed, gpu);
    const struct sampler_stream *stream = feed_stream(feed->feed);
    if (!stream)
        return error_set(ERROR_USAGE, "tombola_feed_state: no batch has come yet");
    buffer_clear(&feed->state_text);
    pthread_mutex_lock(&feed->lock);
    error = rank_state_print(&feed->state, stream, &feed->state_text);
    pthread_mutex_unlock(&feed->lock);
    if (!error)
        *ret_state = feed->state_text.data;
    return error;
}

int tombola_feed_left(struct tombola_feed *feed, int64_t epoch, int64_t *ret_batches)
{
    if (!feed || !ret_batches)
        return error_set(ERROR_USAGE, "tombola_feed_left: %s is NULL",
                         feed ? "ret_batches" : "the feed");
    if (!feed->by_index)
        return error_set(ERROR_USAGE,
                         "how many batches are left is only known with TOMBOLA_INDEX: leases and "
                         "draws share the stream with whoever else pulls from it");
    int gpu = -1;
    enum error error = enter(feed, "tombola_feed_left", &gpu);
    if (error)
        return error;
    leave(feed, gpu);
    const struct sampler_stream *stream = feed_stream(feed->feed);
    if (!stream)
        return error_set(ERROR_USAGE, "tombola_feed_left: no batch has come yet");
    int64_t left = feed_left(feed->feed, epoch);
    if (left == INT64_MAX)
        return error_set(ERROR_USAGE,
                         "how many batches are left is not known: stream %s has no end",
                         stream->name);
    if (left < 0)
        return error_set(ERROR_USAGE,
                         "how many batches are left is not known: in design %s, that of stream "
                         "%s, each decides where the next one begins",
                         stream->design, stream->name);
    *ret_batches = left;
    return TOMBOLA_OK;
}

/* ---- descriptions ------------------------------------------------------- */

/* As much of a struct as both sides know; zeros if the caller knows more. */
static void copy_out(void *out, size_t out_bytes, const void *from, size_t from_bytes)
{
    memset(out, 0, out_bytes);
    memcpy(out, from, out_bytes < from_bytes ? out_bytes : from_bytes);
}

void tombola_feed_describe(const struct tombola_feed *feed,
                           struct tombola_description *ret_description, size_t bytes)
{
    if (!feed) {
        memset(ret_description, 0, bytes);
        return;
    }
    const struct store_info *info = store_info(feed->store);
    size_t group_text_count;
    const char *const *group_texts = feed_group_texts(feed->feed, &group_text_count);
    struct tombola_description description = {
        .rows = info->rows,
        .features = info->features,
        .element = feed->expand ? TOMBOLA_F32 : (int)info->element,
        .label_kind = (int)info->label_kind,
        .device_is_cuda = feed->device->kind == DEVICE_CUDA,
        .device_index = feed->device->index,
        .device = feed->device->description,
        .feature_names = info->feature_names,
        .label_texts = info->label_texts,
        .label_text_count = info->label_text_count,
        .slots = feed_slots(feed->feed),
        .labels = (int)feed_labels(feed->feed),
        .dimensions = info->shape ? info->dimensions : 1,
        .shape = info->shape ? info->shape : &feed->features,
        .weights = (int)feed->weights,
        .groups = feed->groups,
        .group_texts = group_texts,
        .group_text_count = group_text_count,
        .recipe = feed->recipe_text.length > 0 ? feed->recipe_text.data : NULL,
        .classes = feed_classes(feed->feed),
        .lengths = (int)info->lengths};
    copy_out(ret_description, bytes, &description, sizeof(description));
}

void tombola_feed_stats(const struct tombola_feed *feed, struct tombola_stats *ret_stats,
                        size_t bytes)
{
    struct feed_stats inner;
    if (!feed) {
        memset(ret_stats, 0, bytes);
        return;
    }
    feed_get_stats(feed->feed, &inner);
    struct tombola_stats stats = {.batches = inner.batches,
                                  .rows = inner.rows,
                                  .bytes = inner.bytes,
                                  .bad_rows = inner.bad_rows,
                                  .pull_ns = inner.pull_ns,
                                  .fetch_ns = inner.fetch_ns,
                                  .copy_ns = inner.copy_ns,
                                  .wait_ns = inner.wait_ns,
                                  .first_ns = inner.first_ns,
                                  .lost = inner.lost,
                                  .resident_rows = inner.resident_rows,
                                  .copied_rows = inner.copied_rows};
    copy_out(ret_stats, bytes, &stats, sizeof(stats));
}

const char *tombola_error_message(void)
{
    return error_message();
}

void tombola_log_level(int level)
{
    pthread_once(&once, begin_once); /* first, so that it does not overwrite this level later */
    log_set_level(level <= 0   ? LOG_DEBUG
                  : level == 1 ? LOG_INFO
                  : level == 2 ? LOG_WARNING
                               : LOG_ERROR);
}

void tombola_log_to(void (*take)(int level, const char *message, void *context), void *context)
{
    pthread_once(&once, begin_once);
    log_set_sink(take, context);
}

const char *tombola_version(void)
{
    return PACKAGE_VERSION;
}
