/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/journal/journal: The journal with an owner that is a list of numbers: power loss
 * at every byte, sectors that were not written, disks that refuse, before a compaction and
 * meanwhile. What it asks of the system is wrapped (-Wl,--wrap).
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/file.h"
#include "common/log.h"
#include "sampler/journal/journal_private.h"
#include "sampler/journal/state_folder.h"

#define NUMBERS 100000

static int fail_syncs; /* errno, 0: they work */
static int fail_writes;
static int fail_room;
static int fail_names;
static bool names_anyway;   /* a rename that fails has happened, as where a response is lost */
static int fail_after = -1; /* calls of any kind that work before one of them fails, once */
static void (*at_call)(void);
static void (*at_room)(void);

/* What a call of the system answers now. */
static int refusal(int always)
{
    if (at_call)
        at_call();
    if (fail_after < 0)
        return always;
    return fail_after-- == 0 ? always : 0;
}

int __real_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor)
{
    int error = refusal(fail_syncs);
    if (!error)
        return __real_fdatasync(descriptor);
    errno = error;
    return -1;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    int error = refusal(fail_names);
    if (error) {
        assert_int_equal(names_anyway ? __real_rename(from, to) : 0, 0);
        errno = error;
        return -1;
    }
    int done = __real_rename(from, to);
    if (at_call)
        at_call();
    return done;
}

/* As where the server of a network file system gave the lock away. */
static bool locks_nothing;

int __real_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation);
int __wrap_flock(int descriptor, int operation)
{
    return locks_nothing ? 0 : __real_flock(descriptor, operation);
}

ssize_t __real_pwrite(int descriptor, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int descriptor, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int descriptor, const void *bytes, size_t length, off_t offset)
{
    int error = refusal(fail_writes);
    if (!error)
        return __real_pwrite(descriptor, bytes, length, offset);
    errno = error;
    return -1;
}

int __real_posix_fallocate(int descriptor, off_t offset, off_t length);
int __wrap_posix_fallocate(int descriptor, off_t offset, off_t length);
int __wrap_posix_fallocate(int descriptor, off_t offset, off_t length)
{
    int error = refusal(fail_room);
    if (at_room)
        at_room();
    return error ? error : __real_posix_fallocate(descriptor, offset, length);
}

/* ---- an owner that is a list of numbers --------------------------------- */

struct owner {
    int64_t numbers[NUMBERS];
    size_t count;
    char folder[256];
    pthread_mutex_t mutex;
    struct state *state;
    struct journal *journal;
};

static struct owner owner;

static void (*at_replay)(void);

static enum error replay(void *books, const struct entry *entry)
{
    struct owner *replayed = books;
    if (at_replay)
        at_replay();
    replayed->numbers[replayed->count++] = entry->value;
    return OK;
}

static enum error write_all(void *books, enum error (*add)(void *adding, const struct entry *),
                            void *adding)
{
    const struct owner *written = books;
    for (size_t i = 0; i < written->count; i++) {
        struct entry entry = {.type = ENTRY_SEEK, .worker = -1, .value = written->numbers[i]};
        enum error error = add(adding, &entry);
        if (error)
            return error;
    }
    return OK;
}

struct waiter {
    struct journal_waiter waiter;
    int calls;
};

static void ready(struct journal_waiter *waiter)
{
    ((struct waiter *)waiter)->calls++;
}

static enum error ledgers_new(void **ret_ledgers)
{
    *ret_ledgers = calloc(1, sizeof(struct owner));
    return *ret_ledgers ? OK : ERROR_MEMORY;
}

/* Entries without a response have the newest numbers. */
static bool undo_draw(void *books, struct journal_waiter *waiter)
{
    assert_ptr_equal(books, &owner);
    assert_int_equal(waiter->first, owner.numbers[owner.count - 1]);
    owner.count--;
    return true;
}

static struct journal_owner facts_of(struct owner *which)
{
    return (struct journal_owner){.mutex = &which->mutex,
                                  .ledgers = which,
                                  .replay = replay,
                                  .write = write_all,
                                  .ledgers_new = ledgers_new,
                                  .ledgers_free = free,
                                  .undo = undo_draw};
}

static void open_journal(struct owner *which, enum durability durability)
{
    const struct journal_owner facts = facts_of(which);
    which->count = 0;
    pthread_mutex_init(&which->mutex, NULL);
    assert_ok(state_open(which->folder, &which->state));
    assert_ok(journal_open(which->state, durability, 0, &facts, &which->journal));
}

static void open_owner(enum durability durability)
{
    open_journal(&owner, durability);
    assert_ok(journal_begin(owner.journal));
}

static void close_journal(struct owner *which)
{
    journal_close(which->journal);
    state_close(which->state);
    which->journal = NULL;
    which->state = NULL;
}

static void close_owner(void)
{
    close_journal(&owner);
}

static enum error append(int64_t number, struct waiter *waiter)
{
    struct entry entry = {.type = ENTRY_SEEK, .worker = -1, .value = number};
    pthread_mutex_lock(&owner.mutex);
    enum error error =
        journal_reserve(owner.journal, journal_record_bytes(entry_bound_bytes(&entry)));
    if (!error) {
        journal_append(owner.journal, &entry);
        owner.numbers[owner.count++] = number;
    }
    if (!error && waiter) {
        *waiter = (struct waiter){.waiter = {.ready = ready, .first = number}};
        journal_wait(owner.journal, &waiter->waiter);
    }
    pthread_mutex_unlock(&owner.mutex);
    return error;
}

static void commit(void)
{
    (void)journal_work(owner.journal, clock_now_ns(), true);
}

/* What the committer does when nobody wants anything: it marks what is on the disk, and grows the
 * file. So many rounds, not so long a time: a machine that is busy elsewhere does them as well. */
static void work_at_leisure(void)
{
    for (int i = 0; i < 20; i++)
        (void)journal_work(owner.journal, clock_deadline_ns(JOURNAL_WATERMARK_MS / 2), false);
}

/* The committer tries again until the disk is better. */
static void append_until_taken(int64_t number, struct waiter *waiter)
{
    int64_t deadline_ns = clock_deadline_ns(600000);
    while (append(number, waiter)) {
        assert_true(clock_left_ms(deadline_ns) > 0);
        (void)journal_work(owner.journal, clock_deadline_ns(10), false);
    }
}

static size_t file_bytes(void)
{
    struct journal_counts counts;
    journal_get_counts(owner.journal, &counts);
    return (size_t)counts.file_bytes;
}

/* ---- the file as bytes -------------------------------------------------- */

static void journal_file(char out[512])
{
    snprintf(out, 512, "%s/journal", owner.folder);
}

static void read_journal(struct buffer *bytes)
{
    char path[512];
    journal_file(path);
    assert_ok(file_read_whole(path, bytes));
}

static void write_journal(const void *bytes, size_t length)
{
    char path[512];
    journal_file(path);
    assert_ok(file_write_whole(path, bytes, length));
}

static enum error open_bytes_accepting(const void *bytes, size_t length, uint64_t accept_loss)
{
    const struct journal_owner facts = facts_of(&owner);
    write_journal(bytes, length);
    owner.count = 0;
    enum error error = state_open(owner.folder, &owner.state);
    if (!error)
        error = journal_open(owner.state, DURABILITY_FSYNC, accept_loss, &facts, &owner.journal);
    if (!error)
        error = journal_begin(owner.journal);
    return error;
}

static enum error open_bytes(const void *bytes, size_t length)
{
    return open_bytes_accepting(bytes, length, 0);
}

static void check_numbers(size_t least)
{
    assert_true(owner.count >= least);
    for (size_t i = 0; i < owner.count; i++)
        assert_int_equal(owner.numbers[i], 1000 * i + 7);
}

/* Commits of 1, 2, 3 ... entries; *ends[i]: the file's length when entry i was on the disk. */
static size_t record(size_t commits, size_t *ends, size_t *ret_count)
{
    size_t count = 0;
    open_owner(DURABILITY_FSYNC);
    for (size_t i = 0; i < commits; i++) {
        size_t begin = count;
        while (count < begin + 1 + i % 4) {
            assert_ok(append((int64_t)(1000 * count + 7), NULL));
            count++;
        }
        commit();
        for (size_t j = begin; j < count; j++)
            ends[j] = file_bytes();
    }
    size_t length = file_bytes();
    close_owner();
    *ret_count = count;
    return length;
}

/* What a file looks like whose bytes behind `cut` never reached the disk. */
static char *without_tail(const struct buffer *whole, size_t cut)
{
    char *copy = calloc(1, whole->length);
    assert_non_null(copy);
    memcpy(copy, whole->data, cut);
    return copy;
}

/* Appends, and finds after a kill what was appended: nothing less, and nothing behind it. */
static void check_that_it_goes_on(void)
{
    assert_ok(append((int64_t)(1000 * owner.count + 7), NULL));
    commit();
    size_t count = owner.count;
    close_owner();
    open_owner(DURABILITY_FSYNC);
    assert_int_equal(owner.count, count);
    check_numbers(count);
    close_owner();
}

static void test_power_loss_at_every_byte(void **unused)
{
    (void)unused;
    size_t ends[200];
    size_t count;
    struct buffer whole = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    size_t length = record(20, ends, &count);
    read_journal(&whole);
    for (size_t cut = JOURNAL_HEADER_BYTES; cut <= length; cut++) {
        size_t least = 0; /* entries that were answered */
        while (least < count && ends[least] <= cut)
            least++;
        char *copy = without_tail(&whole, cut);
        assert_ok(open_bytes(copy, whole.length));
        free(copy);
        check_numbers(least);
        check_that_it_goes_on();
    }
    buffer_release(&whole);
    unit_folder_remove(owner.folder);
}

/* Sectors of a commit reach the disk in any order, or not at all. Whole records behind a missing
 * one are no part of the journal, also when the next record ends where they begin. */
static void test_sectors_that_were_not_written(void **unused)
{
    (void)unused;
    size_t ends[200];
    size_t count;
    struct buffer whole = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    size_t length = record(16, ends, &count);
    read_journal(&whole);
    srand((unsigned)unit_seed());
    for (int round = 0; round < 500; round++) {
        char *copy = malloc(whole.length);
        memcpy(copy, whole.data, whole.length);
        size_t last = (size_t)rand() % count; /* entries up to it are on the disk */
        size_t synced = ends[last];
        size_t next = synced; /* the commit that was under way */
        for (size_t i = 0; i < count && next == synced; i++)
            next = ends[i] > synced ? ends[i] : synced;
        memset(copy + next, 0, length > next ? length - next : 0);
        for (size_t at = synced; at < next; at += 8) {
            if (rand() % 3 == 0)
                memset(copy + at, 0, next - at < 8 ? next - at : 8);
        }
        size_t least = 0;
        while (least < count && ends[least] <= synced)
            least++;
        assert_ok(open_bytes(copy, whole.length));
        check_numbers(least);
        check_that_it_goes_on();
        free(copy);
    }
    buffer_release(&whole);
    unit_folder_remove(owner.folder);
}

static void test_damage_is_never_taken_for_a_torn_tail(void **unused)
{
    (void)unused;
    size_t ends[200];
    size_t count;
    struct buffer whole = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    (void)record(12, ends, &count);
    read_journal(&whole);
    size_t last = ends[count - 1];
    size_t before = 0; /* where the last commit begins: what is behind tells of all before */
    for (size_t i = 0; i < count; i++) {
        if (ends[i] < last)
            before = ends[i];
    }
    for (size_t at = 0; at < before; at += at < 40 ? 1 : 3) {
        if (at == 40)
            at = 500;
        if (at > 600 && at < JOURNAL_WATERMARK_OFFSET - 8)
            at = JOURNAL_WATERMARK_OFFSET - 8;
        if (at >= JOURNAL_WATERMARK_OFFSET && at < JOURNAL_HEADER_BYTES)
            at = JOURNAL_HEADER_BYTES; /* what is marked may be torn */
        whole.data[at] ^= 0x10;
        assert_fails(open_bytes(whole.data, whole.length), ERROR_INPUT, "damaged");
        close_owner();
        whole.data[at] ^= 0x10;
    }
    buffer_release(&whole);
    unit_folder_remove(owner.folder);
}

/* The mark is written again and again, and a page may be lost by it: the mark's own, and nothing
 * else. */
static void test_a_page_that_was_torn(void **unused)
{
    (void)unused;
    size_t ends[200];
    size_t count;
    struct buffer whole = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    (void)record(12, ends, &count);
    read_journal(&whole);
    size_t page = JOURNAL_WATERMARK_OFFSET & ~(size_t)4095;
    memset(whole.data + page, 0x55, 4096);
    assert_ok(open_bytes(whole.data, whole.length));
    assert_int_equal(owner.count, count);
    check_numbers(count);
    check_that_it_goes_on();
    buffer_release(&whole);
    unit_folder_remove(owner.folder);
}

/* ---- what a journal knows of itself ------------------------------------- */

/* Numbers in a journal of that durability; it ends as a kill does, or in order. */
static void record_numbers(enum durability durability, size_t count, bool orderly,
                           struct buffer *ret_whole)
{
    open_owner(durability);
    for (size_t i = 0; i < count; i++)
        assert_ok(append((int64_t)(1000 * i + 7), NULL));
    if (durability == DURABILITY_FSYNC)
        commit();
    if (orderly)
        assert_ok(journal_finish(owner.journal));
    close_owner();
    read_journal(ret_whole);
}

static size_t end_of(const struct buffer *whole)
{
    size_t end = whole->length;
    while (end > JOURNAL_HEADER_BYTES && whole->data[end - 1] == 0)
        end--;
    return (end + 7) / 8 * 8;
}

static void test_a_file_that_was_cut_is_refused(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_NONE; durability++) {
        struct buffer whole = BUFFER_INIT(1 << 24);
        unit_folder_make(owner.folder);
        record_numbers((enum durability)durability, 50, durability == DURABILITY_NONE, &whole);
        size_t end = end_of(&whole);
        for (size_t cut = JOURNAL_HEADER_BYTES; cut < whole.length;
             cut = cut < end + 8 ? cut + 8 : cut + 4096 - cut % 4096) {
            assert_fails(open_bytes(whole.data, cut), ERROR_INPUT, "should be at least");
            close_owner();
        }
        assert_fails(open_bytes(whole.data, 100), ERROR_INPUT, "100 bytes");
        close_owner();
        assert_ok(open_bytes(whole.data, whole.length));
        check_numbers(50);
        close_owner();
        buffer_release(&whole);
        unit_folder_remove(owner.folder);
    }
}

/* With each step of its growth it knows that it must be longer. */
static void test_a_file_that_grew_knows_its_length(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        struct buffer whole = BUFFER_INIT(1 << 24);
        struct buffer first = BUFFER_INIT(1 << 24);
        unit_folder_make(owner.folder);
        open_owner((enum durability)durability);
        read_journal(&first);
        for (size_t i = 0; i < 20000; i++)
            assert_ok(append((int64_t)(1000 * i + 7), NULL));
        work_at_leisure();
        close_owner();
        read_journal(&whole);
        assert_true(whole.length > first.length + ((size_t)64 << 10));
        for (size_t cut = first.length; cut < whole.length; cut += (size_t)16 << 10) {
            assert_fails(open_bytes(whole.data, cut), ERROR_INPUT, "should be at least");
            close_owner();
        }
        assert_fails(open_bytes(whole.data, whole.length - 100), ERROR_INPUT, "cut");
        close_owner();
        assert_ok(open_bytes(whole.data, whole.length));
        check_numbers(20000);
        close_owner();
        buffer_release(&whole);
        buffer_release(&first);
        unit_folder_remove(owner.folder);
    }
}

/* Zeros from any frame on are as a crash leaves them, but behind an orderly end there was none. */
static void test_an_orderly_end_misses_nothing(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_NONE; durability++) {
        struct buffer whole = BUFFER_INIT(1 << 24);
        unit_folder_make(owner.folder);
        record_numbers((enum durability)durability, 50, true, &whole);
        for (size_t cut = JOURNAL_HEADER_BYTES; cut < end_of(&whole); cut += 8) {
            char *copy = without_tail(&whole, cut);
            assert_fails(open_bytes(copy, whole.length), ERROR_INPUT, "--accept-loss");
            close_owner();
            free(copy);
        }
        buffer_release(&whole);
        unit_folder_remove(owner.folder);
    }
}

/* fsync: what the committer had time to mark is known to have been there. */
static void test_what_was_marked_is_missed(void **unused)
{
    (void)unused;
    struct buffer whole = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_FSYNC);
    for (size_t i = 0; i < 50; i++)
        assert_ok(append((int64_t)(1000 * i + 7), NULL));
    work_at_leisure();
    close_owner();
    read_journal(&whole);
    for (size_t cut = JOURNAL_HEADER_BYTES; cut < end_of(&whole); cut += 8) {
        char *copy = without_tail(&whole, cut);
        assert_fails(open_bytes(copy, whole.length), ERROR_INPUT, "was on the disk up to");
        close_owner();
        free(copy);
    }
    memset(whole.data + JOURNAL_WATERMARK_OFFSET, 0x55,
           JOURNAL_WATERMARK_BYTES); /* torn: says nothing */
    assert_ok(open_bytes(whole.data, whole.length));
    check_numbers(50);
    close_owner();
    buffer_release(&whole);
    unit_folder_remove(owner.folder);
}

/* A killed process leaves no hole in its pages. Power loss does, and there is a way to go on. */
static void test_a_hole_in_what_a_process_kept(void **unused)
{
    (void)unused;
    char path[512];
    char text[32];
    struct buffer whole = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    record_numbers(DURABILITY_PROCESS, 50, false, &whole);
    size_t frame = JOURNAL_HEADER_BYTES;
    for (size_t i = 0; i < 49; i++) {
        whole.data[frame + 17] ^= 1;
        assert_fails(open_bytes(whole.data, whole.length), ERROR_INPUT, "power loss");
        snprintf(text, sizeof(text), "--accept-loss %zu", frame);
        assert_non_null(strstr(error_message(), text));
        close_owner();
        assert_fails(open_bytes_accepting(whole.data, whole.length, frame + 8), ERROR_INPUT, text);
        close_owner();
        if (i % 16 == 3) {
            assert_ok(open_bytes_accepting(whole.data, whole.length, frame));
            assert_int_equal(owner.count, i);
            assert_ok(append((int64_t)(1000 * i + 7), NULL));
            commit();
            close_owner();
            snprintf(path, sizeof(path), "%s/journal.damaged", owner.folder);
            assert_int_equal(access(path, F_OK), 0);
            open_owner(DURABILITY_FSYNC); /* once was enough */
            check_numbers(i + 1);
            assert_int_equal(owner.count, i + 1);
            close_owner();
        }
        whole.data[frame + 17] ^= 1;
        uint32_t entry_bytes;
        memcpy(&entry_bytes, whole.data + frame + 8, sizeof(entry_bytes));
        frame += journal_record_bytes(entry_bytes & INT32_MAX);
    }
    whole.data[frame + 17] ^= 1; /* the last one: killed while it was written */
    assert_ok(open_bytes(whole.data, whole.length));
    assert_int_equal(owner.count, 49);
    close_owner();
    buffer_release(&whole);
    unit_folder_remove(owner.folder);
}

/* ---- what a start would find ---------------------------------------------- */

/* A copy of the folder, as it would be found after a kill at this instant. */
static struct owner found;
static size_t kills;

static void copy_found(const char *name)
{
    char from[512];
    char to[512];
    struct buffer bytes = BUFFER_INIT(1 << 28);
    snprintf(from, sizeof(from), "%s/%s", owner.folder, name);
    snprintf(to, sizeof(to), "%s/%s", found.folder, name);
    if (access(from, F_OK) == 0) {
        assert_ok(file_read_whole(from, &bytes));
        assert_ok(file_write_whole(to, bytes.data, bytes.length));
    }
    buffer_release(&bytes);
}

static void check_found(void)
{
    const struct journal_owner facts = facts_of(&found);
    void (*hook)(void) = at_call;
    size_t count = owner.count;
    at_call = NULL;
    unit_folder_make(found.folder);
    copy_found("journal");
    copy_found(strrchr(owner.journal->new_path, '/') + 1);
    found.count = 0;
    pthread_mutex_init(&found.mutex, NULL);
    assert_ok(state_open(found.folder, &found.state));
    assert_ok(journal_open(found.state, DURABILITY_PROCESS, 0, &facts, &found.journal));
    assert_int_equal(found.count, count);
    assert_memory_equal(found.numbers, owner.numbers, count * sizeof(owner.numbers[0]));
    journal_close(found.journal);
    state_close(found.state);
    unit_folder_remove(found.folder);
    kills++;
    at_call = hook;
}

/* ---- disks that refuse -------------------------------------------------- */

/* Who hears that it was refused can rely on it, also if the process is killed right then. */
static void check_refused(struct journal_waiter *waiter)
{
    int errno_values[] = {fail_syncs, fail_writes};
    fail_syncs = fail_writes = 0;
    check_found();
    fail_syncs = errno_values[0];
    fail_writes = errno_values[1];
    ready(waiter);
}

/* What changes nothing has its answer at once, too. */
static void check_that_nobody_waits(enum error expected)
{
    struct waiter waiter = {.waiter.ready = ready};
    pthread_mutex_lock(&owner.mutex);
    journal_wait(owner.journal, &waiter.waiter);
    pthread_mutex_unlock(&owner.mutex);
    assert_true(waiter.calls == 1 && waiter.waiter.error == expected);
}

static void check_refusal(int *refusal, int errno_value, enum error expected)
{
    struct waiter waiters[3];
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_FSYNC);
    assert_ok(append(7, &waiters[0]));
    commit();
    assert_true(waiters[0].calls == 1 && !waiters[0].waiter.error);
    *refusal = errno_value;
    for (int i = 0; i < 3; i++) {
        assert_ok(append(1007 + i, &waiters[i])); /* there is room: they are taken */
        waiters[i].waiter.ready = check_refused;
    }
    commit();
    for (int i = 0; i < 3; i++)
        assert_true(waiters[i].calls == 1 && waiters[i].waiter.error == expected);
    assert_int_equal(owner.count, 1);
    assert_fails(append(1007, NULL), expected, "journal");
    check_that_nobody_waits(expected);
    (void)journal_work(owner.journal, clock_now_ns(), false); /* tries, and fails */
    pthread_mutex_lock(&owner.mutex);
    assert_true(journal_failing(owner.journal));
    pthread_mutex_unlock(&owner.mutex);
    *refusal = 0;
    append_until_taken(1007, &waiters[0]);
    commit();
    assert_int_equal(waiters[0].waiter.error, OK);
    close_owner();
    open_owner(DURABILITY_FSYNC);
    assert_int_equal(owner.count, 2);
    check_numbers(2);
    close_owner();
    unit_folder_remove(owner.folder);
}

static void test_what_could_not_be_kept_goes_back(void **unused)
{
    (void)unused;
    check_refusal(&fail_syncs, EIO, ERROR_IO);
    check_refusal(&fail_syncs, ENOSPC, ERROR_NO_SPACE);
    check_refusal(&fail_writes, EIO, ERROR_IO);
    check_refusal(&fail_writes, EFBIG, ERROR_NO_SPACE);
}

/* Between what is written and what is answered, at the last moment. */
static void be_taken_over(void)
{
    static const char holder[] = "1 on elsewhere, generation 2, since now\n";
    char path[512];
    snprintf(path, sizeof(path), "%s/lock", owner.folder);
    int descriptor = open(path, O_WRONLY);
    assert_true(descriptor >= 0);
    assert_int_equal(__real_pwrite(descriptor, holder, sizeof(holder) - 1, 0), sizeof(holder) - 1);
    close(descriptor);
}

static void test_who_lost_the_folder_answers_nothing(void **unused)
{
    (void)unused;
    struct waiter waiter;
    struct buffer before = BUFFER_INIT(1 << 24);
    struct buffer after = BUFFER_INIT(1 << 24);
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_FSYNC);
    assert_ok(append(7, NULL));
    commit();
    assert_ok(append(1007, &waiter));
    at_call = be_taken_over;
    commit();
    at_call = NULL;
    assert_true(waiter.calls == 1 && waiter.waiter.error == ERROR_IO);
    assert_int_equal(owner.count, 1);
    check_found(); /* and a start that reads what it left knows nothing of it */
    read_journal(&before);
    for (int i = 0; i < 3; i++) {
        owner.journal->retry_ns = 0;
        (void)journal_work(owner.journal, clock_now_ns(), false);
        assert_fails(append(1007, NULL), ERROR_IO, "taken over by another server");
    }
    assert_true(journal_finish(owner.journal) == ERROR_IO);
    read_journal(&after);
    assert_true(before.length == after.length);
    assert_memory_equal(before.data, after.data, before.length);
    close_owner();
    buffer_release(&before);
    buffer_release(&after);
    unit_folder_remove(owner.folder);
}

static struct owner other;

/* Has read DIR/lock before it, and writes its line after it. */
static void start_other(void)
{
    at_call = NULL;
    memcpy(other.folder, owner.folder, sizeof(other.folder));
    open_journal(&other, DURABILITY_FSYNC);
    assert_ok(journal_begin(other.journal));
    state_take(other.state);
}

/* Of a compaction that began before; the system is through with it only now. */
static void rename_of_before(void)
{
    char path[512];
    journal_file(path);
    assert_int_equal(__real_rename(other.journal->new_path, path), -1);
}

/* Both have lost the lock, and count the same generation: what one of them is writing does not get
 * the journal's name by the other one's doing. */
static void test_two_starts_at_once(void **unused)
{
    (void)unused;
    unit_folder_make(owner.folder);
    locks_nothing = true;
    at_call = start_other;
    open_journal(&owner, DURABILITY_FSYNC);
    at_call = rename_of_before;
    assert_ok(journal_begin(owner.journal));
    at_call = NULL;
    assert_fails(state_confirm(other.state), ERROR_IO, "generation 1, since");
    append_until_taken(7, NULL);
    commit();
    close_journal(&other);
    close_owner();
    open_owner(DURABILITY_FSYNC);
    assert_int_equal(owner.count, 1);
    close_owner();
    locks_nothing = false;
    unit_folder_remove(owner.folder);
}

static void test_a_full_disk_is_met_before_anything_moves(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        unit_folder_make(owner.folder);
        open_owner((enum durability)durability);
        fail_room = ENOSPC;
        int64_t next = 7;
        enum error error;
        while (!(error = append(next, NULL))) {
            next += 1000;
            (void)journal_work(owner.journal, clock_now_ns(), false);
        }
        assert_int_equal(error, ERROR_NO_SPACE);
        size_t count = owner.count;
        assert_true(count > 10);
        for (int i = 0; i < 5; i++)
            assert_fails(append(next, NULL), ERROR_NO_SPACE, "journal");
        assert_int_equal(owner.count, count);
        fail_room = 0;
        append_until_taken(next, NULL);
        commit();
        close_owner();
        open_owner((enum durability)durability);
        assert_int_equal(owner.count, count + 1);
        check_numbers(count + 1);
        close_owner();
        unit_folder_remove(owner.folder);
    }
}

static int grown_free, grown_held;

static void count_growth(void)
{
    if (pthread_mutex_trylock(&owner.mutex) != 0) {
        grown_held++;
        return;
    }
    grown_free++;
    pthread_mutex_unlock(&owner.mutex);
}

/* The disk makes room before it is needed, while others append: nobody waits for it. */
static void test_room_is_made_ahead(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        unit_folder_make(owner.folder);
        open_owner((enum durability)durability);
        grown_free = grown_held = 0;
        at_room = count_growth;
        for (int64_t i = 0; i < 30000; i++) {
            assert_ok(append(1000 * i + 7, NULL));
            if (i % 300 == 299)
                (void)journal_work(owner.journal, clock_now_ns(), false);
        }
        assert_true(grown_free > 3);
        assert_int_equal(grown_held, 0);
        fail_room = ENOSPC; /* what is there is used to its end, and then some other time */
        size_t count = owner.count;
        while (!append((int64_t)(1000 * owner.count + 7), NULL))
            (void)journal_work(owner.journal, clock_now_ns(), false);
        assert_true(owner.count > count + 100);
        fail_room = 0;
        at_room = NULL;
        append_until_taken((int64_t)(1000 * owner.count + 7), NULL);
        commit();
        count = owner.count;
        close_owner();
        open_owner((enum durability)durability);
        assert_int_equal(owner.count, count);
        check_numbers(count);
        close_owner();
        unit_folder_remove(owner.folder);
    }
}

/* ---- compaction --------------------------------------------------------- */

static struct journal_counts counts_now(void)
{
    struct journal_counts counts;
    pthread_mutex_lock(&owner.mutex);
    journal_get_counts(owner.journal, &counts);
    pthread_mutex_unlock(&owner.mutex);
    return counts;
}

static void check_after_a_kill(enum durability durability)
{
    size_t count = owner.count;
    close_owner();
    open_owner(durability);
    assert_int_equal(owner.count, count);
    check_numbers(count);
    close_owner();
}

/* With a long text, so that the journal gets long soon. */
static void append_long(void)
{
    static char text[100000];
    struct entry entry = {.type = ENTRY_SEEK,
                          .worker = -1,
                          .value = 1000 * (int64_t)owner.count + 7,
                          .text = text,
                          .text_bytes = sizeof(text)};
    memset(text, 'x', sizeof(text));
    pthread_mutex_lock(&owner.mutex);
    assert_ok(journal_reserve(owner.journal, journal_record_bytes(entry_bound_bytes(&entry))));
    journal_append(owner.journal, &entry);
    owner.numbers[owner.count++] = entry.value;
    pthread_mutex_unlock(&owner.mutex);
}

static void test_a_long_journal_is_written_anew(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        unit_folder_make(owner.folder);
        open_owner((enum durability)durability);
        for (int i = 0; i < 2000 && counts_now().rewrites < 3; i++) {
            append_long();
            (void)journal_work(owner.journal, clock_now_ns(), false);
        }
        assert_true(counts_now().rewrites >= 3);
        assert_true(counts_now().file_bytes < (uint64_t)40 << 20);
        commit();
        check_after_a_kill((enum durability)durability);
        unit_folder_remove(owner.folder);
    }
}

static void append_next(struct waiter *waiter)
{
    assert_ok(append((int64_t)(1000 * owner.count + 7), waiter));
}

/* It has entries for some pieces, and is long enough from now on. */
static void open_long(enum durability durability)
{
    unit_folder_make(owner.folder);
    open_owner(durability);
    for (int i = 0; i < 5000; i++)
        append_next(NULL);
    commit();
    pthread_mutex_lock(&owner.mutex);
    owner.journal->rewrite_at = 0;
    pthread_mutex_unlock(&owner.mutex);
}

static bool work_on(void)
{
    (void)journal_work(owner.journal, clock_now_ns(), false);
    return owner.journal->rewrite.phase != REWRITE_NONE;
}

/* At every call of the system that a rewrite makes; entries come between its pieces. */
static void test_a_kill_while_it_is_written_anew(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        open_long((enum durability)durability);
        uint64_t before = counts_now().rewrites;
        bool works = true;
        kills = 0;
        while (works) {
            append_next(NULL);
            commit();
            at_call = check_found;
            works = work_on();
            at_call = NULL;
            check_found();
        }
        assert_true(counts_now().rewrites == before + 1 && kills > 15);
        check_after_a_kill((enum durability)durability);
        unit_folder_remove(owner.folder);
    }
}

/* One call after the other fails, once; afterwards the disk works again. */
static void check_refusals(int *refused, int errno_value, enum durability durability)
{
    for (int calls = 0; calls < 20; calls++) {
        struct waiter waiters[2] = {0};
        open_long(durability);
        append_next(&waiters[0]);
        *refused = errno_value;
        fail_after = calls;
        while (work_on())
            continue;
        fail_after = -1;
        *refused = 0;
        append_until_taken((int64_t)(1000 * owner.count + 7), &waiters[1]);
        commit();
        for (int i = 0; i < 2 && durability == DURABILITY_FSYNC; i++)
            assert_int_equal(waiters[i].calls, 1);
        check_after_a_kill(durability);
        unit_folder_remove(owner.folder);
    }
}

static void test_a_disk_that_refuses_while_it_is_written_anew(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        check_refusals(&fail_writes, EIO, (enum durability)durability);
        check_refusals(&fail_syncs, EIO, (enum durability)durability);
        check_refusals(&fail_room, ENOSPC, (enum durability)durability);
        check_refusals(&fail_names, EACCES, (enum durability)durability);
        names_anyway = true;
        check_refusals(&fail_names, EIO, (enum durability)durability);
        names_anyway = false;
    }
}

/* A disk that gets full gets back at once what the new file took of it. */
static void test_a_full_disk_ends_it(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        open_long((enum durability)durability);
        while (owner.journal->rewrite.phase != REWRITE_WRITE)
            (void)work_on();
        const char *path = owner.journal->new_path;
        assert_int_equal(access(path, F_OK), 0);
        fail_room = ENOSPC;
        while (!append((int64_t)(1000 * owner.count + 7), NULL))
            (void)work_on();
        while (work_on())
            continue;
        assert_int_not_equal(access(path, F_OK), 0);
        fail_room = 0;
        append_until_taken((int64_t)(1000 * owner.count + 7), NULL);
        commit();
        check_after_a_kill((enum durability)durability);
        unit_folder_remove(owner.folder);
    }
}

/* It does not wait for the journal to grow. */
static void test_a_failed_compaction_is_tried_again_by_time(void **unused)
{
    (void)unused;
    open_long(DURABILITY_FSYNC);
    uint64_t before = counts_now().rewrites;
    fail_room = ENOSPC;
    do
        assert_int_equal(counts_now().rewrites, before);
    while (work_on());
    fail_room = 0;
    assert_false(work_on()); /* not at once */
    assert_in_range(clock_left_ms(owner.journal->rewrite_ns), 1, JOURNAL_REWRITE_RETRY_MS);
    owner.journal->rewrite_ns = clock_now_ns();
    while (work_on())
        continue;
    assert_int_equal(counts_now().rewrites, before + 1);
    assert_false(work_on());
    check_after_a_kill(DURABILITY_FSYNC);
    unit_folder_remove(owner.folder);
}

static void flip_byte(off_t offset)
{
    char path[512];
    uint8_t byte;
    journal_file(path);
    int descriptor = open(path, O_RDWR);
    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, offset), 1);
    byte ^= 4;
    assert_int_equal(__real_pwrite(descriptor, &byte, 1, offset), 1);
    close(descriptor);
}

/* The file in use is not what was written: the books in memory are, and make a new one. */
static void test_a_damaged_file_is_left(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        struct waiter waiter = {0};
        open_long((enum durability)durability);
        flip_byte(100003);
        append_next(&waiter);
        uint64_t before = counts_now().rewrites;
        int64_t deadline_ns = clock_deadline_ns(600000);
        while (counts_now().rewrites == before) {
            assert_true(clock_left_ms(deadline_ns) > 0);
            (void)journal_work(owner.journal, clock_deadline_ns(10), false);
        }
        assert_int_equal(counts_now().failures, 1);
        append_next(NULL);
        commit();
        assert_true(durability == DURABILITY_PROCESS || waiter.calls == 1);
        assert_int_equal(waiter.waiter.error, OK);
        check_after_a_kill((enum durability)durability);
        unit_folder_remove(owner.folder);
    }
}

static struct waiter drawn[2];

/* The system cannot carry out stores into the map any more, as where a copy-on-write disk has no
 * room for its pages; a draw comes. */
static void lose_map(void)
{
    struct journal *journal = owner.journal;
    if (journal->rewrite.phase != REWRITE_SWITCH || journal->switches)
        return;
    at_call = NULL;
    int empty = memfd_create("empty", MFD_CLOEXEC);
    assert_true(empty >= 0);
    assert_ptr_equal(mmap(journal->file.map, journal->file.room, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, empty, 0),
                     journal->file.map);
    close(empty);
    append_next(&drawn[0]);
}

/* Its failure is not forgotten with the old file. */
static void test_a_map_that_is_lost_before_the_switch(void **unused)
{
    (void)unused;
    open_long(DURABILITY_PROCESS);
    size_t count = owner.count;
    at_call = lose_map;
    while (work_on())
        continue;
    assert_null(at_call);
    commit();
    assert_true(drawn[0].calls == 1 && drawn[0].waiter.error == ERROR_IO);
    assert_int_equal(owner.count, count);
    append_until_taken((int64_t)(1000 * owner.count + 7), &drawn[1]);
    commit();
    assert_true(drawn[1].calls == 1 && drawn[1].waiter.error == OK);
    check_after_a_kill(DURABILITY_PROCESS);
    unit_folder_remove(owner.folder);
}

static struct waiter late;

static void come_once(void)
{
    at_replay = NULL;
    append_next(&late);
}

/* Its draw is in no file: it does not wait until there is one, which may take for ever. */
static void test_who_came_before_the_damage_was_found(void **unused)
{
    (void)unused;
    open_long(DURABILITY_FSYNC);
    size_t count = owner.count;
    flip_byte(10003); /* of the first piece that is read */
    at_replay = come_once;
    fail_names = EACCES; /* nor is there a new file */
    late.calls = 0;
    int64_t deadline_ns = clock_deadline_ns(600000);
    while (late.calls == 0) {
        assert_true(clock_left_ms(deadline_ns) > 0);
        (void)journal_work(owner.journal, clock_deadline_ns(10), false);
    }
    assert_int_not_equal(late.waiter.error, OK);
    assert_int_equal(owner.count, count);
    fail_names = 0;
    append_until_taken((int64_t)(1000 * owner.count + 7), NULL);
    commit();
    check_after_a_kill(DURABILITY_FSYNC);
    unit_folder_remove(owner.folder);
}

/* ---- a disk that hangs -------------------------------------------------- */

static struct waiter patient[3];
static int hangs; /* how many calls from now on */

/* Another thread's look, when those who wait have done so for too long. */
static void watch_late(void)
{
    int64_t patience_ns = INT64_C(1000000) * JOURNAL_PATIENCE_MS;
    int64_t now_ns = clock_now_ns();
    journal_watch(owner.journal, now_ns);
    journal_watch(owner.journal, now_ns + patience_ns - 1);
    assert_int_equal(patient[1].calls, 0);
    journal_watch(owner.journal, now_ns + patience_ns);
}

static void wait_for_refusal(void)
{
    pthread_mutex_lock(&owner.mutex);
    struct errand *undoing = owner.journal->undoing;
    pthread_mutex_unlock(&owner.mutex);
    assert_true(undoing && errand_wait(undoing, clock_deadline_ns(600000)));
}

/* Called in the middle of a call of the system, which is not back before all of this happened. */
static void hang_here(void)
{
    if (hangs-- > 0)
        return;
    at_call = NULL;
    watch_late();
    wait_for_refusal();
    for (int i = 1; i < 3; i++)
        assert_true(patient[i].calls == 1 && patient[i].waiter.error == ERROR_IO);
    assert_int_equal(owner.count, 1);
    assert_fails(append(1007, NULL), ERROR_IO, "the disk has not answered for 5 s");
    check_that_nobody_waits(ERROR_IO);
    check_found();
}

/* At each call that a commit makes: the answer comes, and a start finds nothing of it. */
static void check_hanging(enum durability durability, bool maps, int calls)
{
    unit_folder_make(owner.folder);
    open_owner(durability);
    owner.journal->maps = maps;
    assert_ok(append(7, &patient[0]));
    commit();
    assert_true(patient[0].calls == 1 && !patient[0].waiter.error);
    assert_ok(append(1007, &patient[1]));
    assert_ok(append(2007, &patient[2]));
    hangs = calls;
    at_call = hang_here;
    commit();
    assert_true(!at_call); /* it hung */
    check_found();
    append_until_taken(1007, &patient[1]);
    commit();
    assert_true(patient[1].calls == 1 && !patient[1].waiter.error);
    check_after_a_kill(durability);
    unit_folder_remove(owner.folder);
}

static void test_a_disk_that_hangs_answers_in_time(void **unused)
{
    (void)unused;
    check_hanging(DURABILITY_FSYNC, false, 0);   /* pwrite() */
    check_hanging(DURABILITY_FSYNC, false, 1);   /* fdatasync() */
    check_hanging(DURABILITY_PROCESS, false, 0); /* pwrite() */
}

static void hang_at_the_end(void)
{
    if (hangs-- > 0)
        return;
    at_call = NULL;
    watch_late();
    wait_for_refusal();
    for (int i = 1; i < 3; i++)
        assert_true(patient[i].calls == 1 && patient[i].waiter.error == ERROR_IO);
}

/* What the end commits is refused as ever, and the next start finds a sound journal. */
static void test_a_disk_that_hangs_at_the_end(void **unused)
{
    (void)unused;
    for (int calls = 0; calls < 2; calls++) { /* pwrite(), fdatasync() */
        unit_folder_make(owner.folder);
        open_owner(DURABILITY_FSYNC);
        assert_ok(append(7, NULL));
        commit();
        assert_ok(append(1007, &patient[1]));
        assert_ok(append(2007, &patient[2]));
        hangs = calls;
        at_call = hang_at_the_end;
        assert_ok(journal_finish(owner.journal));
        assert_null(at_call); /* it hung */
        close_owner();
        open_owner(DURABILITY_FSYNC);
        assert_int_equal(owner.count, 1);
        close_owner();
        unit_folder_remove(owner.folder);
    }
}

/* Somebody comes while it hangs. */
static void hang_and_append(void)
{
    if (hangs-- > 0)
        return;
    at_call = NULL;
    size_t count = owner.count;
    append_next(&patient[1]);
    watch_late();
    wait_for_refusal();
    assert_true(patient[1].calls == 1 && patient[1].waiter.error == ERROR_IO);
    assert_int_equal(owner.count, count);
    check_found();
}

/* At each call of a compaction, one after the other; the journal is a sound one in the end. */
static void test_a_compaction_that_hangs(void **unused)
{
    (void)unused;
    bool hung = true;
    int calls = 0;
    for (; hung; calls++) {
        open_long(calls % 2 ? DURABILITY_FSYNC : DURABILITY_PROCESS);
        owner.journal->maps = false;
        hangs = calls / 2;
        at_call = hang_and_append;
        while (work_on())
            continue;
        hung = !at_call;
        at_call = NULL;
        append_until_taken((int64_t)(1000 * owner.count + 7), NULL);
        commit();
        check_after_a_kill(calls % 2 ? DURABILITY_FSYNC : DURABILITY_PROCESS);
        unit_folder_remove(owner.folder);
    }
    assert_true(calls > 16);
}

/* ---- large entries ------------------------------------------------------ */

static _Atomic bool committer_ends;

static void *commit_until_end(void *unused)
{
    (void)unused;
    while (!committer_ends)
        (void)journal_work(owner.journal, clock_deadline_ns(10), false);
    return NULL;
}

static enum error append_with_memory(struct journal_memory *memory, size_t bytes,
                                     struct waiter *waiter)
{
    char *text = calloc(1, bytes);
    struct entry entry = {
        .type = ENTRY_SEEK, .worker = -1, .value = 7, .text = text, .text_bytes = bytes};
    size_t record_bytes = journal_record_bytes(entry_bound_bytes(&entry));
    *waiter = (struct waiter){.waiter = {.ready = ready, .first = entry.value}};
    assert_ok(journal_prepare(owner.journal, record_bytes, memory));
    const uint8_t *given = memory->bytes;
    pthread_mutex_lock(&owner.mutex);
    journal_use_memory(owner.journal, memory);
    enum error error = journal_reserve(owner.journal, record_bytes);
    if (!error) {
        assert_true(journal_file_offset(&owner.journal->file, owner.journal->end) + record_bytes <=
                    owner.journal->file.room);
        assert_ptr_equal(owner.journal->pending.bytes, given);
        journal_append(owner.journal, &entry);
        assert_ptr_equal(owner.journal->pending.bytes, given); /* and not moved */
        owner.numbers[owner.count++] = entry.value;
        journal_wait(owner.journal, &waiter->waiter);
    }
    pthread_mutex_unlock(&owner.mutex);
    free(text);
    return error;
}

static enum error append_large(size_t bytes, struct waiter *waiter)
{
    struct journal_memory memory;
    pthread_t committer;
    committer_ends = false;
    assert_int_equal(pthread_create(&committer, NULL, commit_until_end, NULL), 0);
    enum error error = append_with_memory(&memory, bytes, waiter);
    committer_ends = true;
    pthread_join(committer, NULL);
    journal_memory_release(&memory);
    return error;
}

/* With the mutex it is copied, no more: memory and room are made before. On a full disk it is
 * refused alone. */
static void test_a_large_entry_finds_memory_and_room(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        struct waiter waiter;
        unit_folder_make(owner.folder);
        open_owner((enum durability)durability);
        assert_ok(append_large(1 << 20, &waiter));
        commit();
        assert_true(waiter.calls == 1 && !waiter.waiter.error);
        fail_room = ENOSPC;
        assert_int_equal(append_large(1 << 20, &waiter), ERROR_NO_SPACE);
        append_next(NULL);
        fail_room = 0;
        append_until_taken((int64_t)(1000 * owner.count + 7), NULL);
        commit();
        check_after_a_kill((enum durability)durability);
        unit_folder_remove(owner.folder);
    }
}

/* That the file before could not grow says nothing of the one that replaced it. */
static void test_a_large_entry_after_the_file_was_replaced(void **unused)
{
    struct waiter waiter;
    (void)unused;
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_FSYNC);
    fail_room = ENOSPC;
    assert_int_equal(append_large(1 << 20, &waiter), ERROR_NO_SPACE);
    fail_syncs = EIO;
    assert_ok(append(7, &waiter));
    commit();
    assert_int_equal(waiter.waiter.error, ERROR_IO);
    fail_room = fail_syncs = 0;
    append_until_taken(7, &waiter);
    commit();
    assert_ok(append_large(2 << 20, &waiter));
    commit();
    assert_true(waiter.calls == 1 && !waiter.waiter.error);
    close_owner();
    unit_folder_remove(owner.folder);
}

/* ---- waking the committer ------------------------------------------------ */

/* Nothing but a waiter wakes it now. */
static bool sleeps_for_long(const struct journal *journal)
{
    pthread_mutex_lock(journal->owner.mutex);
    bool marked = journal->synced <= journal->watermark.whole &&
                  journal->synced_room <= journal->watermark.length;
    bool sleeps = journal->sleeps && marked;
    pthread_mutex_unlock(journal->owner.mutex);
    return sleeps;
}

static struct waiter only;

static void *commit_for_one(void *unused)
{
    (void)unused;
    do
        (void)journal_work(owner.journal, clock_deadline_ns(3600000), false);
    while (only.calls == 0);
    return NULL;
}

static void test_one_who_waits_wakes_the_committer(void **unused)
{
    (void)unused;
    pthread_t committer;
    struct timespec until;
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_FSYNC);
    only.calls = 0;
    assert_int_equal(pthread_create(&committer, NULL, commit_for_one, NULL), 0);
    while (!sleeps_for_long(owner.journal))
        clock_sleep_ms(1);
    assert_ok(append(7, &only));
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int overdue = pthread_timedjoin_np(committer, NULL, &until);
    if (overdue) {
        journal_wake(owner.journal);
        pthread_join(committer, NULL);
    }
    assert_int_equal(overdue, 0);
    assert_int_equal(only.calls, 1);
    close_owner();
    unit_folder_remove(owner.folder);
}

/* By a compaction that was killed; no call before it failed. */
static void test_a_file_that_was_left_gives_way(void **unused)
{
    (void)unused;
    char path[512];
    struct journal_file file;
    unit_folder_make(owner.folder);
    snprintf(path, sizeof(path), "%s/left", owner.folder);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        assert_ok(journal_file_create(&file, path));
        journal_file_close(&file);
    }
    unit_folder_remove(owner.folder);
}

static void write_beside(const char *name, const char *text, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", owner.folder, name);
    assert_ok(file_write_whole(path, text, bytes));
}

static bool is_beside(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", owner.folder, name);
    return access(path, F_OK) == 0;
}

/* A start removes what killed servers of any version left; a name that none of them gives is
 * somebody else's, and so is a content that none of them writes. */
static void test_what_killed_servers_left_and_what_not(void **unused)
{
    static const char *const left[] = {"journal.new", "journal.new.12",
                                       "journal.new.0123456789abcdef"};
    static const char *const others[] = {"journal.newer",   "journal.new.",
                                         "journal.new-12",  "journal.new.12x",
                                         "journal.new.abc", "journal.new.0123456789abcdeg"};
    static const char header[JOURNAL_MAGIC_BYTES] = JOURNAL_MAGIC;
    const struct journal_owner facts = facts_of(&owner);
    (void)unused;
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_FSYNC);
    close_owner();
    for (size_t i = 0; i < 6; i++)
        write_beside(others[i], "mine", 4);
    write_beside(left[0], "", 0);
    write_beside(left[1], header, sizeof(header));
    write_beside(left[2], (const char[JOURNAL_MAGIC_BYTES]){0}, JOURNAL_MAGIC_BYTES);
    open_owner(DURABILITY_FSYNC);
    for (size_t i = 0; i < 3; i++)
        assert_false(is_beside(left[i]));
    for (size_t i = 0; i < 6; i++)
        assert_true(is_beside(others[i]));
    close_owner();
    for (size_t i = 0; i < 3; i++) {
        write_beside(left[i], "my own text", i == 0 ? 3 : 11);
        assert_ok(state_open(owner.folder, &owner.state));
        assert_fails(journal_open(owner.state, DURABILITY_FSYNC, 0, &facts, &owner.journal),
                     ERROR_INPUT, "is not what a sampler left there");
        state_close(owner.state);
        assert_true(is_beside(left[i]));
        write_beside(left[i], "", 0);
    }
    unit_folder_remove(owner.folder);
}

static void write_again(void)
{
    fail_writes = 0;
}

static void test_nothing_is_written_before_the_orderly_end(void **unused)
{
    (void)unused;
    char path[512];
    unit_folder_make(owner.folder);
    open_owner(DURABILITY_NONE);
    journal_file(path);
    for (int64_t i = 0; i < 10; i++)
        assert_ok(append(1000 * i + 7, NULL));
    assert_int_not_equal(access(path, F_OK), 0);
    fail_writes = EIO; /* once: nothing else has them */
    at_call = write_again;
    assert_ok(journal_finish(owner.journal));
    at_call = NULL;
    assert_fails(append(10007, NULL), ERROR_IO, "stopping"); /* a request that comes too late */
    close_owner();
    open_owner(DURABILITY_NONE);
    assert_int_equal(owner.count, 10);
    check_numbers(10);
    close_owner();
    unit_folder_remove(owner.folder);
}

static int silence(void **unused)
{
    (void)unused;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    return 0;
}

static const struct CMUnitTest tests[] = {
    /* The first: the journal's handler of SIGBUS is installed once, and replaces cmocka's of that
     * test only. */
    cmocka_unit_test(test_a_map_that_is_lost_before_the_switch),
    cmocka_unit_test_setup(test_a_file_that_was_cut_is_refused, silence),
    cmocka_unit_test(test_a_file_that_grew_knows_its_length),
    cmocka_unit_test(test_an_orderly_end_misses_nothing),
    cmocka_unit_test(test_what_was_marked_is_missed),
    cmocka_unit_test_setup(test_power_loss_at_every_byte, silence),
    cmocka_unit_test(test_sectors_that_were_not_written),
    cmocka_unit_test(test_damage_is_never_taken_for_a_torn_tail),
    cmocka_unit_test(test_room_is_made_ahead),
    cmocka_unit_test(test_a_long_journal_is_written_anew),
    cmocka_unit_test(test_a_kill_while_it_is_written_anew),
    cmocka_unit_test(test_a_disk_that_refuses_while_it_is_written_anew),
    cmocka_unit_test(test_a_hole_in_what_a_process_kept),
    cmocka_unit_test(test_a_page_that_was_torn),
    cmocka_unit_test(test_what_could_not_be_kept_goes_back),
    cmocka_unit_test(test_a_disk_that_hangs_answers_in_time),
    cmocka_unit_test(test_a_disk_that_hangs_at_the_end),
    cmocka_unit_test(test_a_compaction_that_hangs),
    cmocka_unit_test(test_who_lost_the_folder_answers_nothing),
    cmocka_unit_test(test_two_starts_at_once),
    cmocka_unit_test(test_a_full_disk_is_met_before_anything_moves),
    cmocka_unit_test(test_a_full_disk_ends_it),
    cmocka_unit_test(test_a_failed_compaction_is_tried_again_by_time),
    cmocka_unit_test(test_a_damaged_file_is_left),
    cmocka_unit_test(test_who_came_before_the_damage_was_found),
    cmocka_unit_test(test_a_large_entry_finds_memory_and_room),
    cmocka_unit_test(test_a_large_entry_after_the_file_was_replaced),
    cmocka_unit_test(test_one_who_waits_wakes_the_committer),
    cmocka_unit_test(test_a_file_that_was_left_gives_way),
    cmocka_unit_test(test_what_killed_servers_left_and_what_not),
    cmocka_unit_test(test_nothing_is_written_before_the_orderly_end),
};

UNIT_MAIN(tests)
