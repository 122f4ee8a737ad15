/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/stream_control: Checkpoints of streams with many leases let others draw in
 * between, whatever these do.
 */
#include "tests/unit/others_unit.h"

/* Batches of one unit, seqs from 0 on, all of "w". */
static void lease_many(void)
{
    struct stream_batch batch;
    unit.stream->ledger.lease_ms = 600000;
    for (int64_t i = 0; i < MANY; i++)
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
}

/* ---- checkpoints -------------------------------------------------------- */

static char *token_now(void)
{
    char *token;
    bool waits;
    assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
    return token;
}

/* Acks before and behind what is listed, draws out of gaps and of what is new. */
static void change(int draw)
{
    struct stream_batch batch;
    int64_t acked[] = {draw, MANY - draw, MANY / 2 + draw};
    assert_ok(stream_ack_many(unit.stream, "w", acked, 3));
    assert_ok(unit_lease(unit.stream, "v", draw, 7, &batch));
    assert_ok(unit_draw(unit.stream, 3, &batch));
}

static void seek(int draw)
{
    bool waits;
    if (draw == 2)
        assert_ok(stream_seek(unit.stream, 77, NULL, &waits));
}

/* What a token says was so at one moment, whatever happens while it is made. */
static void test_a_checkpoint_is_of_one_moment(void **state)
{
    bool waits;
    int64_t released;
    struct stream_batch batch;
    (void)state;
    lease_many();
    assert_ok(unit_draw(unit.stream, 1000, &batch));
    char *token = token_now();
    assert_ok(stream_restore(unit.stream, token, NULL, &waits)); /* what was leased are gaps now */
    free(token);
    for (int64_t i = 0; i < MANY / 2; i++)
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
    for (int64_t i = MANY / 2; i < MANY; i++) {
        assert_ok(unit_lease(unit.stream, "w", i, 3, &batch));
        if (i % 3 == 0)
            assert_ok(unit_lease(unit.stream, "u", i, 1, &batch));
    }
    assert_ok(stream_release(unit.stream, "u", NULL, &released, &waits));
    char *before = token_now();
    let_others_draw();
    also = change;
    char *during = token_now();
    assert_in_range(others_drew(), 5, 100);
    assert_string_equal(before, during);
    free(before);
    free(during);
    let_others_draw();
    also = seek;
    during = token_now();
    assert_in_range(others_drew(), 2, 100);
    before = token_now();
    assert_string_equal(before, during);
    assert_null(unit.stream->ledger.listings);
    free(before);
    free(during);
}

static const struct CMUnitTest tests[] = {
    TEST(test_a_checkpoint_is_of_one_moment),
};

UNIT_MAIN(tests)
