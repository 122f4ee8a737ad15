/* SPDX-License-Identifier: MIT */
/*
 * The bookkeeping is under one lock; unpacking happens outside it:
 *
 *   pieces[count]  what is known of the text, from its beginning. Piece `count` is the one that is
 *                  found next: its page is LOADING while it is, so that one thread finds it
 *   pages          the text of some pieces: EMPTY -> LOADING (one thread's) -> READY (pins: readers
 *                  that copy from it) -> EMPTY
 *   lanes          unpackers: closed, idle or busy (one thread's). `offset` is where in the text it
 *                  stands, or will when it is idle again. Lane 0 finds the pieces until the length
 *                  is known, and is never begun elsewhere meanwhile: checks need whole members
 *
 * No thread waits while it pins a page, or loads two.
 */
#include "loader/unpack/packed_text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/unpack/packed_load.h"

#define PAGES 16
#define LANES 8
#define LARGE_LANES 2 /* of unpackers that each take more than LARGE_BYTES */
#define LARGE_BYTES ((size_t)24 << 20)
#define PASSED_PAGES 6
#define WARN_BYTES ((uint64_t)64 << 20)
#define STOP_CHECK_MS 200

struct packed_text {
    struct packed_file file;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    struct packed_piece *pieces; /* owned; [count] */
    size_t count, capacity;
    uint64_t length; /* TEXT_LENGTH_UNKNOWN: more may follow the last piece */
    struct packed_page pages[PAGES];
    struct packed_lane lanes[LANES];
    size_t lane_limit;
    uint64_t clock;        /* counts requests */
    uint64_t passed_bytes; /* unpacked on the way to requested pieces */
    bool warned;
    uint64_t failures; /* their number; the last one is below */
    size_t failed_piece;
    struct error_report report;
};

enum error packed_text_new(const char *path, const struct file_identity *identity,
                           const struct packing *packing, size_t piece_bytes,
                           struct packed_text **ret_text)
{
    struct packed_text *text = array_new(1, sizeof(*text), "a packed file");
    if (!text)
        return ERROR_MEMORY;
    *text = (struct packed_text){.file = {.path = path,
                                          .identity = *identity,
                                          .packing = packing,
                                          .piece_bytes = piece_bytes,
                                          .limit_bytes = 2 * piece_bytes},
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER,
                                 .length = TEXT_LENGTH_UNKNOWN,
                                 .lane_limit = LANES};
    *ret_text = text;
    return OK;
}

void packed_text_free(struct packed_text *text)
{
    if (!text)
        return;
    for (size_t i = 0; i < text->count; i++)
        unpack_point_release(&text->pieces[i].point);
    for (size_t i = 0; i < PAGES; i++)
        free(text->pages[i].data);
    for (size_t i = 0; i < LANES; i++) {
        if (text->lanes[i].open)
            unpacker_close(&text->lanes[i].unpacker);
    }
    free(text->pieces);
    free(text);
}

/* ---- lookup; under the lock --------------------------------------------- */

static uint64_t known_end(const struct packed_text *text)
{
    const struct packed_piece *last = text->count > 0 ? &text->pieces[text->count - 1] : NULL;
    return last ? last->offset + last->bytes : 0;
}

/* The piece that holds the byte; `count`: not known yet. */
static size_t find_piece(const struct packed_text *text, uint64_t offset)
{
    size_t first = 0;
    size_t end = text->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (text->pieces[middle].offset + text->pieces[middle].bytes <= offset)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static struct packed_page *find_page(struct packed_text *text, size_t piece)
{
    for (size_t i = 0; i < PAGES; i++) {
        if (text->pages[i].state != PAGE_EMPTY && text->pages[i].piece == piece)
            return &text->pages[i];
    }
    return NULL;
}

/* An empty page, else the least recently used; NULL: all are in use. */
static struct packed_page *spare_page(struct packed_text *text)
{
    struct packed_page *spare = NULL;
    for (size_t i = 0; i < PAGES; i++) {
        struct packed_page *page = &text->pages[i];
        if (page->state == PAGE_EMPTY)
            return page;
        if (page->state == PAGE_READY && page->pins == 0 && (!spare || page->used < spare->used))
            spare = page;
    }
    return spare;
}

/* Lane 0 is reserved for finding pieces while some may be left to find. */
static bool may_serve(const struct packed_text *text, size_t lane, size_t piece)
{
    return piece == text->count ? lane == 0 : lane > 0 || text->length != TEXT_LENGTH_UNKNOWN;
}

/* The lane positioned nearest before `offset`, an idle one if there are two; NULL: none. */
static struct packed_lane *nearest_lane(struct packed_text *text, size_t piece, uint64_t offset)
{
    struct packed_lane *nearest = NULL;
    for (size_t i = 0; i < LANES; i++) {
        struct packed_lane *lane = &text->lanes[i];
        if (!lane->open || lane->offset > offset || !may_serve(text, i, piece))
            continue;
        if (!nearest || lane->offset > nearest->offset ||
            (lane->offset == nearest->offset && nearest->busy))
            nearest = lane;
    }
    return nearest;
}

/* A lane to move elsewhere: closed, else least recently used; NULL: all are busy. */
static struct packed_lane *spare_lane(struct packed_text *text, size_t piece)
{
    struct packed_lane *spare = NULL;
    for (size_t i = 0; i < text->lane_limit; i++) {
        struct packed_lane *lane = &text->lanes[i];
        if (lane->busy || !may_serve(text, i, piece))
            continue;
        if (!lane->open)
            return lane;
        if (!spare || lane->used < spare->used)
            spare = lane;
    }
    return spare;
}

/* The piece from whose point a piece is reached; `count`: from the beginning of the file. To find a
 * new piece, the checksums of everything before it are needed. */
static size_t piece_to_begin(const struct packed_text *text, size_t piece)
{
    if (piece < text->count)
        return text->pieces[piece].from;
    while (piece-- > 0) {
        if (text->pieces[piece].marked && !text->pieces[piece].point.inner)
            return piece;
    }
    return text->count;
}

/* ---- one thread's load: begun and ended under the lock ------------------ */

static void warn_of_detour(struct packed_text *text, uint64_t bytes)
{
    text->passed_bytes += bytes;
    if (text->passed_bytes < WARN_BYTES || text->warned)
        return;
    text->warned = true;
    log_warning(
        "%s: %llu MB had to be unpacked for rows behind them: it can only be entered at its "
        "beginning; pack it with pzstd, or import it (tombola-loader import)",
        text->file.path, (unsigned long long)(text->passed_bytes / 1000000));
}

/* Where to begin, and with which unpacker. False: one must be waited for. */
static bool choose_lane(struct packed_text *text, size_t piece, struct packed_load *load)
{
    size_t from = piece_to_begin(text, piece);
    uint64_t offset = piece < text->count ? text->pieces[piece].offset : known_end(text);
    struct packed_lane *near = nearest_lane(text, piece, offset);
    if (from < text->count) {
        load->begin_offset = text->pieces[from].offset;
        load->point = text->pieces[from].point;
    }
    load->begin = !near || near->offset < load->begin_offset;
    load->lane = near;
    if (!load->begin && !near->busy)
        load->begin_offset = near->offset;
    else if (!load->begin &&
             (load->found || packed_load_is_detour(&text->file, offset - load->begin_offset)))
        return false;
    else
        load->lane = spare_lane(text, piece);
    load->begin |= load->lane != near;
    return load->lane != NULL;
}

/* Pieces passed shortly before it are kept: threads that read a file in order ask in nearly that
 * order, and nobody can go back to them if there are no points. */
static size_t first_to_load(struct packed_text *text, size_t piece, uint64_t begin_offset)
{
    size_t first = find_piece(text, begin_offset);
    if (first + PASSED_PAGES < piece)
        first = piece - PASSED_PAGES;
    while (first < piece && find_page(text, first))
        first++;
    return first;
}

/* For the piece, or for one that is passed on the way to it. */
static bool begin_load(struct packed_text *text, size_t piece, struct packed_load *load)
{
    bool found = piece == text->count;
    *load = (struct packed_load){.file = &text->file, .page = spare_page(text), .found = found};
    if (!load->page || !choose_lane(text, piece, load))
        return false;
    if (!found)
        piece = first_to_load(text, piece, load->begin_offset);
    load->number = piece;
    if (found)
        load->piece.offset = known_end(text);
    else
        load->piece = text->pieces[piece];
    load->page->state = PAGE_LOADING;
    load->page->piece = piece;
    load->open = !load->lane->open;
    load->lane->open = true;
    load->lane->busy = true;
    load->lane->offset = load->piece.offset + load->piece.bytes;
    load->lane->used = ++text->clock;
    warn_of_detour(text, load->piece.offset - load->begin_offset);
    return true;
}

static enum error add_piece(struct packed_text *text, struct packed_piece *piece)
{
    enum error error = array_grow((void **)&text->pieces, &text->capacity, text->count + 1,
                                  sizeof(*text->pieces), "the pieces of a packed file");
    if (error)
        return error;
    piece->from = piece->marked ? text->count : text->pieces[text->count - 1].from;
    text->pieces[text->count++] = *piece;
    return OK;
}

/* Windows of 128 MiB are not kept eight times. */
static void limit_lanes(struct packed_text *text, const struct packed_lane *lane)
{
    if (text->file.packing->memory_bytes(lane->unpacker.state) > LARGE_BYTES)
        text->lane_limit = LARGE_LANES;
    for (size_t i = text->lane_limit; i < LANES; i++) {
        struct packed_lane *other = &text->lanes[i];
        if (other->open && !other->busy)
            unpacker_close(&other->unpacker);
        other->open &= other->busy;
    }
}

static enum error keep_piece(struct packed_text *text, struct packed_load *load)
{
    enum error error = OK;
    if (load->found && load->piece.bytes > 0)
        error = add_piece(text, &load->piece);
    if (error)
        return error;
    if (load->piece.bytes > 0)
        load->page->state = PAGE_READY;
    else
        unpack_point_release(&load->piece.point);
    if (load->ended)
        text->length = known_end(text);
    return OK;
}

/* Others may wait for the same piece: they get the same error, and do not retry. */
static void note_failure(struct packed_text *text, struct packed_load *load, enum error error)
{
    if (load->found)
        unpack_point_release(&load->piece.point);
    unpacker_close(&load->lane->unpacker);
    load->lane->open = false;
    text->failures++;
    text->failed_piece = load->number;
    error_report_take(error, &text->report);
}

static enum error end_load(struct packed_text *text, struct packed_load *load, enum error error)
{
    load->page->state = PAGE_EMPTY;
    load->lane->busy = false;
    if (!error)
        error = keep_piece(text, load);
    if (error) {
        note_failure(text, load, error);
    } else {
        load->lane->offset = load->piece.offset + load->piece.bytes;
        limit_lanes(text, load->lane);
    }
    pthread_cond_broadcast(&text->changed);
    return error;
}

/* ---- reading ------------------------------------------------------------ */

/* Waits until a load or a pin ends. */
static enum error await_change(struct packed_text *text, size_t piece)
{
    uint64_t failures = text->failures;
    struct timespec until = clock_timespec(clock_deadline_ns(STOP_CHECK_MS));
    int late = pthread_cond_clockwait(&text->changed, &text->lock, CLOCK_MONOTONIC, &until);
    if (late && stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while another thread unpacks %s",
                         text->file.path);
    return text->failures != failures && text->failed_piece == piece ? error_restore(&text->report)
                                                                     : OK;
}

/* The page that holds the byte, pinned; ERROR_END: the text ends before it. Under the lock, which
 * is released meanwhile. */
static enum error hold_page(struct packed_text *text, uint64_t offset,
                            struct packed_page **ret_page)
{
    for (;;) {
        if (offset >= text->length)
            return ERROR_END;
        size_t piece = find_piece(text, offset);
        struct packed_page *page = find_page(text, piece);
        struct packed_load load;
        enum error error;
        if (page && page->state == PAGE_READY) {
            page->pins++;
            page->used = ++text->clock;
            *ret_page = page;
            return OK;
        }
        if (page || !begin_load(text, piece, &load)) {
            error = await_change(text, piece);
        } else {
            pthread_mutex_unlock(&text->lock);
            error = packed_load_run(&load);
            pthread_mutex_lock(&text->lock);
            error = end_load(text, &load, error);
        }
        if (error)
            return error;
    }
}

/* Copies the requested part of the page. Under the lock, which is released meanwhile. */
static size_t copy_page(struct packed_text *text, struct packed_page *page, char *out, size_t bytes,
                        uint64_t offset)
{
    const struct packed_piece *piece = &text->pieces[page->piece];
    size_t at = (size_t)(offset - piece->offset);
    size_t left = piece->bytes - at;
    size_t part = bytes < left ? bytes : left;
    pthread_mutex_unlock(&text->lock);
    memcpy(out, page->data + at, part);
    pthread_mutex_lock(&text->lock);
    if (--page->pins == 0)
        pthread_cond_broadcast(&text->changed);
    return part;
}

enum error packed_text_read(struct packed_text *text, void *out, size_t bytes, uint64_t offset,
                            size_t *ret_bytes)
{
    size_t done = 0;
    enum error error = OK;
    pthread_mutex_lock(&text->lock);
    while (done < bytes && !error) {
        struct packed_page *page;
        error = hold_page(text, offset + done, &page);
        if (!error)
            done += copy_page(text, page, (char *)out + done, bytes - done, offset + done);
    }
    pthread_mutex_unlock(&text->lock);
    if (error && error != ERROR_END)
        return error;
    *ret_bytes = done;
    return OK;
}

uint64_t packed_text_length(struct packed_text *text)
{
    pthread_mutex_lock(&text->lock);
    uint64_t length = text->length;
    pthread_mutex_unlock(&text->lock);
    return length;
}

uint64_t packed_text_place(struct packed_text *text, uint64_t offset)
{
    pthread_mutex_lock(&text->lock);
    size_t piece = find_piece(text, offset);
    uint64_t place =
        piece < text->count ? text->pieces[piece].packed_offset : text->file.identity.size_bytes;
    pthread_mutex_unlock(&text->lock);
    return place;
}
