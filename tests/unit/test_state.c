#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "sampler/state.h"

static struct state_binding binding_of(uint64_t seed)
{
    struct state_binding binding = {
        .units = 1000, .epoch_positions = 1000, .design = "proportional", .seed = seed};
    memset(binding.digest.bytes, 0x5a, sizeof(binding.digest.bytes));
    return binding;
}

/* A folder with the given position in it. */
static void make_state(const char *folder, int64_t position)
{
    struct state *state;
    struct state_binding binding = binding_of(7);
    assert_ok(state_open(folder, &state));
    assert_ok(state_bind(state, &binding));
    if (position > 0)
        assert_ok(state_write(state, position, position / 10, true));
    state_close(state);
}

static int64_t position_in(const char *folder)
{
    struct state *state;
    assert_ok(state_open(folder, &state));
    assert_non_null(state_kept(state));
    int64_t position = state_kept(state)->position;
    state_close(state);
    return position;
}

static void overwrite(const char *folder, size_t offset, const void *bytes, size_t length)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/position", folder);
    int descriptor = open(path, O_WRONLY);
    assert_true(descriptor >= 0);
    assert_int_equal(pwrite(descriptor, bytes, length, (off_t)offset), (ssize_t)length);
    close(descriptor);
}

static void test_a_new_folder_starts_at_0_and_goes_on(void **unused)
{
    (void)unused;
    char folder[256];
    char deep[300];
    struct state *state;
    struct state_binding binding = binding_of(7);
    unit_folder_make(folder);
    snprintf(deep, sizeof(deep), "%s/a/b", folder);
    assert_ok(state_open(deep, &state));
    assert_null(state_kept(state));
    assert_ok(state_bind(state, &binding));
    for (int64_t position = 10; position <= 70; position += 10)
        assert_ok(state_write(state, position, position / 10, position % 20 == 0));
    state_close(state);
    assert_ok(state_open(deep, &state));
    assert_int_equal(state_kept(state)->position, 70);
    assert_int_equal(state_kept(state)->batches, 7);
    assert_int_equal(state_kept(state)->binding.seed, 7);
    assert_string_equal(state_kept(state)->binding.design, "proportional");
    assert_ok(state_bind(state, &binding));
    state_close(state);
    unit_folder_remove(folder);
}

static void test_each_damaged_byte_costs_one_slot_at_most(void **unused)
{
    (void)unused;
    char folder[256];
    unit_folder_make(folder);
    make_state(folder, 30); /* the first slot holds 30, the second one 0 */
    uint8_t whole[2 * STATE_SLOT_BYTES];
    char path[512];
    snprintf(path, sizeof(path), "%s/position", folder);
    int descriptor = open(path, O_RDONLY);
    assert_int_equal(read(descriptor, whole, sizeof(whole)), (ssize_t)sizeof(whole));
    close(descriptor);
    for (size_t at = 0; at < sizeof(whole); at += at % STATE_SLOT_BYTES < 120 ? 1 : 97) {
        uint8_t damaged = whole[at] ^ 0x10;
        overwrite(folder, at, &damaged, 1);
        assert_int_equal(position_in(folder), at < STATE_SLOT_BYTES ? 0 : 30);
        overwrite(folder, at, &whole[at], 1);
    }
    assert_int_equal(position_in(folder), 30);
    unit_folder_remove(folder);
}

static void test_a_torn_write_leaves_the_record_before_it(void **unused)
{
    (void)unused;
    char folder[256];
    unit_folder_make(folder);
    make_state(folder, 30);
    struct state_record record = {.binding = binding_of(7), .position = 99};
    uint8_t next[STATE_SLOT_BYTES];
    state_slot_encode(&record, 3, next);
    static const size_t lengths[] = {1, 8, 17, 100, 111, 512, 4000, 4095};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        overwrite(folder, STATE_SLOT_BYTES, next, lengths[i]);
        assert_int_equal(position_in(folder), 30);
    }
    overwrite(folder, STATE_SLOT_BYTES, next, sizeof(next));
    assert_int_equal(position_in(folder), 99);
    unit_folder_remove(folder);
}

static void test_files_that_were_cut(void **unused)
{
    (void)unused;
    char folder[256];
    char path[512];
    struct state *state = NULL;
    unit_folder_make(folder);
    make_state(folder, 30);
    snprintf(path, sizeof(path), "%s/position", folder);
    assert_int_equal(truncate(path, STATE_SLOT_BYTES + 100), 0);
    assert_int_equal(position_in(folder), 30);
    assert_int_equal(truncate(path, STATE_SLOT_BYTES), 0);
    assert_int_equal(position_in(folder), 30);
    assert_int_equal(truncate(path, STATE_SLOT_BYTES - 1), 0);
    assert_fails(state_open(folder, &state), ERROR_INPUT, "damaged");
    assert_int_equal(truncate(path, 0), 0);
    assert_fails(state_open(folder, &state), ERROR_INPUT, path);
    assert_null(state);
    unit_folder_remove(folder);
}

static void test_another_order_is_refused_by_name(void **unused)
{
    (void)unused;
    char folder[256];
    struct state *state;
    unit_folder_make(folder);
    make_state(folder, 30);
    assert_ok(state_open(folder, &state));
    struct state_binding binding = binding_of(8);
    assert_fails(state_bind(state, &binding), ERROR_CONFLICT, "seed 7 there, 8 here");
    binding = binding_of(7);
    strcpy(binding.design, "srs");
    assert_fails(state_bind(state, &binding), ERROR_CONFLICT,
                 "design proportional there, srs here");
    binding = binding_of(7);
    binding.replacement = true;
    assert_fails(state_bind(state, &binding), ERROR_CONFLICT,
                 "without replacement there, with here");
    binding = binding_of(7);
    binding.digest.bytes[3] ^= 1;
    binding.units = 999;
    assert_fails(state_bind(state, &binding), ERROR_CONFLICT, "of 999 here");
    binding.seed = 9;
    assert_fails(state_bind(state, &binding), ERROR_CONFLICT, "seed 7 there");
    binding = binding_of(7);
    assert_ok(state_bind(state, &binding));
    state_close(state);
    assert_int_equal(position_in(folder), 30);
    unit_folder_remove(folder);
}

static void test_a_second_server_is_refused(void **unused)
{
    (void)unused;
    char folder[256];
    char process[32];
    struct state *state;
    struct state *second = NULL;
    unit_folder_make(folder);
    assert_ok(state_open(folder, &state));
    snprintf(process, sizeof(process), "process %ld", (long)getpid());
    assert_fails(state_open(folder, &second), ERROR_CONFLICT, process);
    assert_null(second);
    state_close(state);
    assert_ok(state_open(folder, &second));
    state_close(second);
    unit_folder_remove(folder);
}

/* RLIMIT_FSIZE 0 refuses every write to a file, as a full disk does. */
static void refuse_writes(bool refuse)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = refuse ? 0 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_refused_write_keeps_the_last_record(void **unused)
{
    (void)unused;
    char folder[256];
    struct state *state;
    struct state_binding binding = binding_of(7);
    unit_folder_make(folder);
    assert_ok(state_open(folder, &state));
    assert_ok(state_bind(state, &binding));
    assert_ok(state_write(state, 10, 1, true));
    refuse_writes(true);
    enum error first = state_write(state, 20, 2, true);
    enum error second = state_write(state, 30, 3, false);
    refuse_writes(false);
    assert_int_equal(first, ERROR_NO_SPACE);
    assert_int_equal(second, ERROR_NO_SPACE);
    state_close(state);
    assert_int_equal(position_in(folder), 10);
    assert_ok(state_open(folder, &state));
    assert_ok(state_bind(state, &binding));
    assert_ok(state_write(state, 20, 2, true));
    state_close(state);
    assert_int_equal(position_in(folder), 20);
    unit_folder_remove(folder);
}

static void test_slots_hold_what_was_put_in(void **unused)
{
    (void)unused;
    struct state_record record = {
        .binding = binding_of(INT64_MAX), .position = INT64_MAX / 2, .batches = INT64_MAX};
    struct state_record again;
    uint64_t sequence;
    uint8_t slot[STATE_SLOT_BYTES];
    record.binding.replacement = true;
    state_slot_encode(&record, UINT64_MAX, slot);
    assert_true(state_slot_decode(slot, &again, &sequence));
    assert_int_equal(sequence, UINT64_MAX);
    assert_memory_equal(&again.binding.digest, &record.binding.digest, 16);
    assert_int_equal(again.binding.seed, record.binding.seed);
    assert_true(again.binding.replacement);
    assert_int_equal(again.position, record.position);
    assert_int_equal(again.batches, record.batches);
    /* a checksum that fits does not make nonsense right */
    record.position = -1;
    state_slot_encode(&record, 1, slot);
    assert_false(state_slot_decode(slot, &again, &sequence));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_new_folder_starts_at_0_and_goes_on),
    cmocka_unit_test(test_each_damaged_byte_costs_one_slot_at_most),
    cmocka_unit_test(test_a_torn_write_leaves_the_record_before_it),
    cmocka_unit_test(test_files_that_were_cut),
    cmocka_unit_test(test_another_order_is_refused_by_name),
    cmocka_unit_test(test_a_second_server_is_refused),
    cmocka_unit_test(test_a_refused_write_keeps_the_last_record),
    cmocka_unit_test(test_slots_hold_what_was_put_in),
};

UNIT_MAIN(tests)
