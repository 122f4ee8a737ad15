/* SPDX-License-Identifier: MIT */
/* Covers loader/unpack/packed_text: with unpacker, packing, unpack_gzip and unpack_zstd. */
#include "tests/unit/packed_unit.h"
#include "tests/unit/store_unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/thread.h"
#include "loader/unpack/text_source.h"

enum { TEXT_BYTES = 5 << 20, THREADS = 4 };

static char *text; /* [TEXT_BYTES] of lines of numbers */
static struct packed_bytes packed;
static uint64_t seed;

static int make_text(void **state)
{
    seed = unit_seed();
    text = malloc(TEXT_BYTES);
    for (size_t i = 0; text && i < TEXT_BYTES; i++)
        text[i] = i % 41 == 40 ? '\n' : "0123456789,,"[dice_below(&seed, 1 + i / 1000 % 12)];
    return text ? make_folder(state) : -1;
}

static int free_text(void **state)
{
    free(text);
    free(packed.data);
    return remove_folder(state);
}

/* ---- forms of a packed file: all of `length` bytes of text --------------- */

static void pack_gzip(size_t length)
{
    add_gzip_member(&packed, text, length, 2, 0);
}

static void pack_gzip_flushed(size_t length)
{
    add_gzip_member(&packed, text, length, 1, 1000);
}

static void pack_gzip_stored(size_t length)
{
    add_gzip_member(&packed, text, length, 0, 0);
}

static size_t part_of(size_t done, size_t length)
{
    static const size_t sizes[] = {1, 100, 65280, 400000, 3 << 20};
    size_t part = dice_below(&seed, sizes[dice_below(&seed, 5)] + 1);
    return part < length - done ? part : length - done;
}

static void pack_members(size_t length)
{
    for (size_t done = 0, part; done < length; done += part) {
        part = part_of(done, length);
        add_gzip_member(&packed, text + done, part, 1 + (int)dice_below(&seed, 3), 0);
    }
    add_gzip_member(&packed, text, 0, 6, 0);
}

static void pack_zstd(size_t length)
{
    add_zstd_frame(&packed, text, length, 3, 0);
}

static void pack_frames(size_t length)
{
    for (size_t done = 0, part; done < length; done += part) {
        part = part_of(done, length);
        if (dice_below(&seed, 2))
            add_skipped_frame(&packed, (uint8_t)dice_below(&seed, 16), (uint32_t)part % 5000);
        add_zstd_frame(&packed, text + done, part, 1 + (int)dice_below(&seed, 5), 0);
    }
    add_skipped_frame(&packed, 14, 9 * 17);
}

static void (*const forms[])(size_t length) = {
    pack_gzip, pack_gzip_flushed, pack_gzip_stored, pack_members, pack_zstd, pack_frames,
};

#define FORMS (sizeof(forms) / sizeof(forms[0]))

static void write_packed(void)
{
    int descriptor = open(path_of("packed"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_int_equal(write(descriptor, packed.data, packed.length), packed.length);
    close(descriptor);
}

static void write_form(size_t form, size_t length)
{
    packed.length = 0;
    forms[form](length);
    write_packed();
}

/* ---- reading ------------------------------------------------------------ */

/* Threads ask this, as nothing may be asserted in them. */
static bool reads_right(struct text_file *file, uint64_t offset, size_t bytes, size_t length)
{
    char *out = malloc(bytes + 1);
    size_t there = offset < length ? length - (size_t)offset : 0;
    size_t expected = bytes < there ? bytes : there;
    size_t got = SIZE_MAX;
    enum error error = text_file_read(file, out, bytes, offset, &got);
    bool right = !error && got == expected && memcmp(out, text + offset, expected) == 0;
    if (!right)
        print_message("%zu bytes at %llu: %zu, %s\n", bytes, (unsigned long long)offset, got,
                      error ? error_message() : "others");
    free(out);
    return right;
}

static void check_read(struct text_file *file, uint64_t offset, size_t bytes, size_t length)
{
    assert_true(reads_right(file, offset, bytes, length));
}

/* In pieces of other sizes than usual, which a file is in after few bytes. */
static void open_source(struct text_source *source, size_t piece_bytes)
{
    assert_ok(text_source_init(source, path_of("packed")));
    assert_non_null(source->packed);
    packed_text_free(source->packed);
    assert_ok(packed_text_new(source->path, &source->identity,
                              packing_of(packed.data, packed.length), piece_bytes,
                              &source->packed));
    assert_true(text_source_length(source) == TEXT_LENGTH_UNKNOWN);
}

static bool reads_right_at_random(const struct text_source *source, size_t length, uint64_t dies)
{
    struct text_file file;
    bool right = true;
    if (text_file_open(&file, source))
        return false;
    for (int i = 0; i < 60 / UNIT_LESS && right; i++) {
        size_t bytes = dice_below(&dies, 1 + length / (dice_below(&dies, 8) ? 1000 : 4));
        right = reads_right(&file, dice_below(&dies, length + 10), bytes, length);
    }
    text_file_close(&file);
    return right;
}

static void check_random_reads(const struct text_source *source, size_t length)
{
    assert_true(reads_right_at_random(source, length, dice(&seed)));
}

static void check_in_order(const struct text_source *source, size_t length)
{
    struct text_file file;
    assert_ok(text_file_open(&file, source));
    size_t stretch = length / 17 + 1;
    for (size_t at = 0; at <= length; at += stretch)
        check_read(&file, at, stretch + 100, length);
    assert_int_equal(text_source_length(source), length);
    text_file_close(&file);
}

static void check_form(size_t form, size_t length, size_t piece_bytes)
{
    struct text_source source;
    write_form(form, length);
    open_source(&source, piece_bytes);
    if (dice_below(&seed, 2))
        check_random_reads(&source, length);
    check_in_order(&source, length);
    check_random_reads(&source, length);
    check_in_order(&source, length);
    assert_int_equal(text_source_done(&source, length), packed.length);
    text_source_release(&source);
}

static void test_every_form_gives_the_text(void **state)
{
    static const size_t lengths[] = {0, 1, 1000, 512 << 10, 1 << 20, TEXT_BYTES};
    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
            check_form(form, lengths[i], PACKED_PIECE_BYTES);
        for (int i = 0; i < 20 / UNIT_LESS; i++)
            check_form(form, dice_below(&seed, 500000), 1 + dice_below(&seed, 40000));
    }
}

static void test_a_file_that_is_not_packed(void **state)
{
    struct text_source source;
    (void)state;
    write_bytes("packed", text, 100000);
    assert_ok(text_source_init(&source, path_of("packed")));
    assert_null(source.packed);
    check_in_order(&source, 100000);
    assert_int_equal(text_source_done(&source, 777), 777);
    text_source_release(&source);
}

/* ---- threads ------------------------------------------------------------ */

struct reading {
    const struct text_source *source;
    uint64_t seed;
    size_t *next; /* stretches in order; NULL: anywhere */
    pthread_mutex_t *lock;
    bool right; /* what was read */
};

static size_t claim(const struct reading *reading)
{
    pthread_mutex_lock(reading->lock);
    size_t stretch = (*reading->next)++;
    pthread_mutex_unlock(reading->lock);
    return stretch;
}

static void *read_stretches(void *argument)
{
    struct reading *reading = argument;
    struct text_file file;
    size_t at;
    reading->right = !text_file_open(&file, reading->source);
    if (!reading->right)
        return NULL;
    while (reading->next && reading->right && (at = claim(reading) << 18) < TEXT_BYTES)
        reading->right = reads_right(&file, at, 260 << 10, TEXT_BYTES);
    if (!reading->next)
        reading->right = reads_right_at_random(reading->source, TEXT_BYTES, reading->seed);
    text_file_close(&file);
    return NULL;
}

static void run_readers(const struct text_source *source, bool in_order)
{
    pthread_t threads[THREADS];
    struct reading readings[THREADS];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t next = 0;
    for (size_t i = 0; i < THREADS; i++) {
        readings[i] = (struct reading){
            .source = source, .seed = dice(&seed), .next = in_order ? &next : NULL, .lock = &lock};
        assert_ok(thread_start("reader", read_stretches, &readings[i], &threads[i]));
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        assert_true(readings[i].right);
}

static void test_threads(void **state)
{
    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        struct text_source source;
        write_form(form, TEXT_BYTES);
        open_source(&source, form % 2 ? PACKED_PIECE_BYTES : 50000);
        run_readers(&source, dice_below(&seed, 2));
        run_readers(&source, true);
        run_readers(&source, false);
        text_source_release(&source);
    }
}

/* ---- what is wrong ------------------------------------------------------ */

/* Text that was read before the damage may be right: only the end must not come. */
static enum error read_through(size_t length)
{
    static char out[300000];
    struct text_source source;
    struct text_file file;
    size_t got = sizeof(out);
    enum error error = text_source_init(&source, path_of("packed"));
    if (error || !source.packed)
        return ERROR_INPUT;
    assert_ok(text_file_open(&file, &source));
    bool same = true;
    uint64_t at = 0;
    for (; got == sizeof(out) && !error; at += got) {
        error = text_file_read(&file, out, sizeof(out), at, &got);
        got = error ? 0 : got;
        same = same && at + got <= length && memcmp(out, text + at, got) == 0;
    }
    assert_true(error || (same && at == length));
    text_file_close(&file);
    text_source_release(&source);
    return error;
}

static void refuse_packed(const char *says)
{
    write_packed();
    assert_fails(read_through(TEXT_BYTES), ERROR_INPUT, says);
    assert_non_null(strstr(error_message(), path_of("packed")));
}

static void test_damage_anywhere_is_met(void **state)
{
    enum { LENGTH = 200000 };
    int refused = 0, rounds = (unit_is_long() ? 20000 : 400) / UNIT_LESS;
    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        write_form(form, LENGTH);
        for (int i = 0; i < rounds; i++) {
            size_t at = dice_below(&seed, packed.length);
            uint8_t bits = (uint8_t)(1 + dice_below(&seed, 255));
            packed.data[at] ^= bits;
            write_packed();
            enum error error = read_through(LENGTH);
            assert_true(!error || error == ERROR_INPUT);
            refused += error != OK;
            packed.data[at] ^= bits;
        }
    }
    assert_true(refused > (int)FORMS * rounds / 2);
}

static void test_a_file_that_is_cut_off(void **state)
{
    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        packed.length = 0;
        forms[form](70000);
        size_t whole = packed.length;
        for (int i = 0; i < 100 / UNIT_LESS; i++) {
            packed.length = 5 + dice_below(&seed, whole - 5);
            write_packed();
            enum error error = read_through(70000);
            assert_true(!error || error == ERROR_INPUT); /* a whole member less may go unseen */
        }
    }
    packed.length = 0;
    pack_gzip(TEXT_BYTES);
    packed.length -= 3;
    refuse_packed("in the middle of its gzip data; was all of it copied?");
    packed.length = 0;
    pack_zstd(TEXT_BYTES);
    packed.length /= 2;
    refuse_packed("in the middle of its zstd data; was all of it copied?");
}

static void test_what_follows_the_last_member(void **state)
{
    char where[64];
    (void)state;
    packed.length = 0;
    pack_gzip(TEXT_BYTES);
    snprintf(where, sizeof(where), "byte %zu: a gzip member ends here", packed.length + 2);
    add_packed_bytes(&packed, "some more bytes", 15);
    refuse_packed(where);
    packed.length = 0;
    pack_frames(TEXT_BYTES);
    add_packed_bytes(&packed, "some more bytes", 15);
    refuse_packed("a zstd frame ends here, and what follows is not another one");
}

static void test_checks_of_the_content(void **state)
{
    (void)state;
    packed.length = 0;
    pack_gzip(TEXT_BYTES);
    packed.data[packed.length - 8] ^= 1;
    refuse_packed("incorrect data check");
    packed.length = 0;
    pack_gzip(TEXT_BYTES);
    packed.data[packed.length - 1] ^= 1;
    refuse_packed("incorrect length check");
    packed.length = 0;
    pack_zstd(TEXT_BYTES);
    packed.data[packed.length - 1] ^= 1;
    refuse_packed("zstd data is damaged");
}

/* 256 MiB of window, in a frame of little text. */
static void test_a_window_that_is_too_large(void **state)
{
    (void)state;
    packed.length = 0;
    add_packed_bytes(&packed, "\x28\xb5\x2f\xfd\0\x90\1\0\0", 9);
    refuse_packed("needs a window of more than 128 MiB");
}

static void pass_over(struct text_file *file)
{
    static char out[1 << 20];
    size_t got = sizeof(out);
    for (uint64_t at = 0; got == sizeof(out); at += got)
        assert_ok(text_file_read(file, out, sizeof(out), at, &got));
}

/* Size and modification time as before: nothing but the text tells. It is so long that its
 * beginning is no longer in memory when its end was read. */
static void test_another_text_in_the_same_file(void **state)
{
    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        struct text_source source;
        struct text_file file;
        struct stat before;
        char byte;
        size_t got;
        write_form(form, TEXT_BYTES);
        assert_int_equal(stat(path_of("packed"), &before), 0);
        open_source(&source, 100000);
        assert_ok(text_file_open(&file, &source));
        pass_over(&file);
        for (size_t i = 20; i < packed.length; i += 50)
            packed.data[i] ^= 2;
        write_packed();
        assert_int_equal(utimensat(AT_FDCWD, path_of("packed"),
                                   (struct timespec[2]){before.st_atim, before.st_mtim}, 0),
                         0);
        assert_ok(text_file_check(&file));
        assert_fails(text_file_read(&file, &byte, 1, 0, &got), ERROR_INPUT, path_of("packed"));
        text_file_close(&file);
        text_source_release(&source);
    }
}

static void test_a_file_that_was_written_to(void **state)
{
    struct text_source source;
    struct text_file file;
    (void)state;
    write_form(0, TEXT_BYTES);
    assert_ok(text_source_init(&source, path_of("packed")));
    assert_ok(text_file_open(&file, &source));
    add_packed_bytes(&packed, "x", 1);
    write_packed();
    assert_fails(text_file_check(&file), ERROR_INPUT, "has changed since it was opened");
    text_file_close(&file);
    assert_fails(text_file_open(&file, &source), ERROR_INPUT, "has changed since it was opened");
    text_source_release(&source);
}

/* ---- far back in a frame ------------------------------------------------ */

static int warnings;

static void count_warning(int level, const char *message, void *context)
{
    (void)context;
    warnings += level == LOG_WARNING && strstr(message, "pzstd") != NULL;
}

/* Reads of 55 MiB from its end to its beginning: how often is it said that this takes long? */
static void check_way_back(int wanted)
{
    struct text_source source;
    struct text_file file;
    write_packed();
    assert_ok(text_source_init(&source, path_of("packed")));
    assert_ok(text_file_open(&file, &source));
    warnings = 0;
    log_set_sink(count_warning, NULL);
    check_read(&file, 0, 10, TEXT_BYTES);
    for (size_t mib = 50; mib > 10; mib -= 8) {
        char out[100];
        size_t got;
        assert_ok(text_file_read(&file, out, sizeof(out), mib << 20, &got));
        assert_memory_equal(out, text + (mib << 20) % TEXT_BYTES, sizeof(out));
    }
    log_set_sink(NULL, NULL);
    assert_int_equal(warnings, wanted);
    text_file_close(&file);
    text_source_release(&source);
}

/* A frame can be read from its beginning alone, a member from any of its blocks. */
static void test_a_long_way_back_warns_once(void **state)
{
    size_t bytes = (size_t)TEXT_BYTES * 11;
    (void)state;
    char *large = malloc(bytes);
    for (size_t i = 0; i < 11; i++)
        memcpy(large + i * TEXT_BYTES, text, TEXT_BYTES);
    packed.length = 0;
    add_zstd_frame(&packed, large, bytes, 1, 0);
    check_way_back(1);
    packed.length = 0;
    add_gzip_member(&packed, large, bytes, 1, 0);
    check_way_back(0);
    free(large);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_form_gives_the_text),
    cmocka_unit_test(test_a_file_that_is_not_packed),
    cmocka_unit_test(test_threads),
    cmocka_unit_test(test_damage_anywhere_is_met),
    cmocka_unit_test(test_a_file_that_is_cut_off),
    cmocka_unit_test(test_what_follows_the_last_member),
    cmocka_unit_test(test_checks_of_the_content),
    cmocka_unit_test(test_a_window_that_is_too_large),
    cmocka_unit_test(test_another_text_in_the_same_file),
    cmocka_unit_test(test_a_file_that_was_written_to),
    cmocka_unit_test(test_a_long_way_back_warns_once),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_text, free_text);
}
