/* SPDX-License-Identifier: MIT */
/* Covers sampler/batch/batch_format. */
#include "tests/unit/unit.h"

#include <inttypes.h>

#include <cjson/cJSON.h>

#include "sampler/batch/batch_format.h"
#include "sampler/batch/digits.h"
#include "sampler/build/frame_build.h"

/* ---- digits ------------------------------------------------------------- */

static void check_digits(int64_t value)
{
    char expected[32];
    char out[DIGITS_BYTES + 8]; /* as digits.h says */
    snprintf(expected, sizeof(expected), "%" PRId64, value);
    char *end = digits_write(out, value);
    assert_int_equal(end - out, strlen(expected));
    assert_memory_equal(out, expected, strlen(expected));
}

static void test_digits_are_those_of_printf(void **state)
{
    (void)state;
    for (int64_t value = 0; value <= 200000; value++)
        check_digits(value);
    int64_t power = 1;
    for (int i = 0; i < 19; i++, power = i < 19 ? power * 10 : power) {
        for (int64_t near = -3; near <= 3; near++) {
            for (int64_t times = 1; times <= 9; times++) {
                if (power <= INT64_MAX / 9 / 10 || times == 1)
                    check_digits(power * times + near > 0 ? power * times + near : 0);
            }
        }
    }
    for (uint64_t value = 1; value < (uint64_t)INT64_MAX / 3; value = value * 3 + 1)
        check_digits((int64_t)value);
    check_digits(INT64_MAX);
    check_digits(INT64_MAX - 1);
}

/* ---- answers ------------------------------------------------------------ */

static void open_texts(const char *uri, struct label_texts *texts)
{
    struct frame *frame;
    assert_ok(frame_build(uri, &frame));
    assert_ok(label_texts_init(texts, frame));
    frame_free(frame);
}

static const int64_t ids[] = {7, 0, INT64_MAX, 59999, 12345678901234567};
static const uint32_t labels[] = {2, 0, 1, 2, 1};

static struct batch_response sample(void)
{
    return (struct batch_response){
        .stream = "default", .epoch = 3, .first = 300, .size = 5, .ids = ids, .labels = labels};
}

/* Writes into memory that ends where the bound says, so that a sanitizer sees a byte beyond it. */
static char *write_bounded(const struct label_texts *texts, const struct batch_response *answer,
                           enum batch_format format, size_t *ret_length)
{
    size_t bound = batch_format_bound_bytes(texts, answer, format);
    char *out = malloc(bound);
    *ret_length = batch_format_write(texts, answer, format, out);
    assert_true(*ret_length <= bound);
    return out;
}

static void check_text(const struct label_texts *texts, const struct batch_response *answer,
                       enum batch_format format, const char *expected)
{
    size_t length;
    char *out = write_bounded(texts, answer, format, &length);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(out, expected, length);
    free(out);
}

static void test_integer_labels(void **state)
{
    (void)state;
    struct label_texts texts;
    struct batch_response answer = sample();
    open_texts("range:30?labels=3", &texts);
    check_text(&texts, &answer, BATCH_FORMAT_JSON,
               "{\"stream\":\"default\",\"epoch\":3,\"first\":300,\"size\":5,"
               "\"ids\":[7,0,9223372036854775807,59999,12345678901234567],"
               "\"labels\":[2,0,1,2,1]}\n");
    check_text(&texts, &answer, BATCH_FORMAT_CSV,
               "id,label\n7,2\n0,0\n9223372036854775807,1\n59999,2\n12345678901234567,1\n");
    answer.size = 0;
    check_text(&texts, &answer, BATCH_FORMAT_JSON,
               "{\"stream\":\"default\",\"epoch\":3,\"first\":300,\"size\":0,"
               "\"ids\":[],\"labels\":[]}\n");
    check_text(&texts, &answer, BATCH_FORMAT_CSV, "id,label\n");
    label_texts_release(&texts);
}

static void test_probabilities_and_what_they_weigh(void **state)
{
    (void)state;
    static const double probabilities[] = {1, 0.5, 0.5, 0.3, 8};
    struct label_texts texts;
    struct batch_response answer = sample();
    answer.probabilities = probabilities;
    open_texts("range:30?labels=3", &texts);
    check_text(&texts, &answer, BATCH_FORMAT_JSON,
               "{\"stream\":\"default\",\"epoch\":3,\"first\":300,\"size\":5,"
               "\"ids\":[7,0,9223372036854775807,59999,12345678901234567],"
               "\"labels\":[2,0,1,2,1],\"probabilities\":[1,0.5,0.5,0.3,8],"
               "\"weights\":[1,2,2,3.3333333333333335,0.125]}\n");
    check_text(&texts, &answer, BATCH_FORMAT_CSV,
               "id,label,probabilities,weights\n7,2,1,1\n0,0,0.5,2\n"
               "9223372036854775807,1,0.5,2\n59999,2,0.3,3.3333333333333335\n"
               "12345678901234567,1,8,0.125\n");
    label_texts_release(&texts);
}

static void test_the_largest_answer_stays_in_its_bound(void **state)
{
    (void)state;
    enum { SIZE = 5000 };
    static int64_t far_ids[SIZE];
    static uint32_t far_labels[SIZE];
    struct label_texts texts;
    size_t length;
    for (int i = 0; i < SIZE; i++) {
        far_ids[i] = INT64_MAX - i;
        far_labels[i] = 999;
    }
    struct batch_response answer = {
        .stream = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        .epoch = INT64_MAX,
        .first = INT64_MAX,
        .ids = far_ids,
        .labels = far_labels};
    open_texts("range:1000?labels=1000", &texts);
    for (answer.size = 0; answer.size <= SIZE; answer.size += answer.size < 20 ? 1 : 996) {
        for (int format = 0; format < BATCH_FORMATS; format++)
            free(write_bounded(&texts, &answer, (enum batch_format)format, &length));
    }
    label_texts_release(&texts);
}

static uint64_t little_endian(const char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

static void test_binary_layout(void **state)
{
    (void)state;
    struct label_texts texts;
    struct batch_response answer = sample();
    size_t length;
    open_texts("range:30?labels=3", &texts);
    char *out = write_bounded(&texts, &answer, BATCH_FORMAT_BINARY, &length);
    assert_int_equal(length, 32 + 5 * 8 + 5 * 4);
    assert_memory_equal(out, "TMBLBAT1", 8);
    assert_int_equal(little_endian(out + 8, 8), 3);
    assert_int_equal(little_endian(out + 16, 8), 300);
    assert_int_equal(little_endian(out + 24, 4), 5);
    assert_int_equal(little_endian(out + 28, 4), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(little_endian(out + 32 + 8 * i, 8), ids[i]);
        assert_int_equal(little_endian(out + 72 + 4 * i, 4), labels[i]);
    }
    free(out);
    label_texts_release(&texts);
}

/* Several of one answer: each has its lease and ends at a multiple of 8 bytes. */
static void test_binary_layout_of_a_list(void **state)
{
    (void)state;
    struct label_texts texts;
    struct batch_response answer = sample();
    size_t length;
    answer.listed = true;
    answer.worker = "w";
    answer.seq = 77;
    answer.attempt = 2;
    answer.expires_ms = 30000;
    open_texts("range:30?labels=3", &texts);
    char *out = write_bounded(&texts, &answer, BATCH_FORMAT_BINARY, &length);
    assert_int_equal(length, 32 + 24 + 5 * 8 + 5 * 4 + 4);
    assert_int_equal(little_endian(out + 28, 4), SAMPLER_BATCH_LISTED);
    assert_int_equal(little_endian(out + 32, 8), 77);
    assert_int_equal(little_endian(out + 40, 8), 2);
    assert_int_equal(little_endian(out + 48, 8), 30000);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(little_endian(out + 56 + 8 * i, 8), ids[i]);
        assert_int_equal(little_endian(out + 96 + 4 * i, 4), labels[i]);
    }
    assert_int_equal(little_endian(out + 116, 4), 0);
    struct sampler_batch batch;
    size_t used;
    assert_ok(sampler_batch_parse_listed(out, length, &batch, &used));
    assert_int_equal(used, length);
    assert_int_equal(batch.lease.seq, 77);
    assert_memory_equal(batch.labels, labels, sizeof(labels));
    free(out);
    label_texts_release(&texts);
}

static void test_a_list_is_json(void **state)
{
    (void)state;
    struct label_texts texts;
    struct batch_response answer = sample();
    char list[2048], *out = list;
    answer.listed = true;
    answer.size = 1;
    open_texts("range:30?labels=3", &texts);
    for (size_t i = 0; i < 2; i++) {
        out += batch_list_begin(i, BATCH_FORMAT_JSON, out);
        out += batch_format_write(&texts, &answer, BATCH_FORMAT_JSON, out);
    }
    out += batch_list_end(BATCH_FORMAT_JSON, out);
    *out = '\0';
#define ONE \
    "{\"stream\":\"default\",\"epoch\":3,\"first\":300,\"size\":1,\"ids\":[7],\"labels\":[2]}"
    assert_string_equal(list, "{\"batches\":[" ONE "," ONE "]}\n");
    assert_int_equal(batch_list_begin(1, BATCH_FORMAT_BINARY, list), 0);
    assert_int_equal(batch_list_end(BATCH_FORMAT_BINARY, list), 0);
    label_texts_release(&texts);
}

/* ---- labels that are texts ---------------------------------------------- */

static const char *const words[] = {"a \"quoted\" one",
                                    "a,comma",
                                    "cat",
                                    "exactly12by",
                                    "much longer than sixteen bytes, with a comma",
                                    "\xc3\xa9t\xc3\xa9"}; /* ascending by bytes */
#define WORDS 6

static void write_csv(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("x,label\n", file);
    for (int i = 0; i < WORDS; i++) {
        fputs("1,\"", file);
        for (const char *at = words[i]; *at; at++) {
            if (*at == '"')
                fputc('"', file);
            fputc(*at, file);
        }
        fputs("\"\n", file);
    }
    fclose(file);
}

static void test_text_labels_are_escaped(void **state)
{
    (void)state;
    char folder[256];
    char path[300];
    char uri[400];
    struct label_texts texts;
    static const int64_t rows[WORDS] = {0, 1, 2, 3, 4, 5};
    static const uint32_t codes[WORDS] = {0, 1, 2, 3, 4, 5};
    struct batch_response answer = {
        .stream = "default", .size = WORDS, .ids = rows, .labels = codes};
    size_t length;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/words.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s", path);
    write_csv(path);
    open_texts(uri, &texts);
    char *out = write_bounded(&texts, &answer, BATCH_FORMAT_JSON, &length);
    cJSON *json = cJSON_ParseWithLength(out, length);
    assert_non_null(json);
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "labels");
    assert_int_equal(cJSON_GetArraySize(array), WORDS);
    for (int i = 0; i < WORDS; i++)
        assert_string_equal(cJSON_GetArrayItem(array, i)->valuestring, words[i]);
    cJSON_Delete(json);
    free(out);
    check_text(&texts, &answer, BATCH_FORMAT_CSV,
               "id,label\n0,\"a \"\"quoted\"\" one\"\n1,\"a,comma\"\n2,cat\n3,exactly12by\n"
               "4,\"much longer than sixteen bytes, with a comma\"\n5,\xc3\xa9t\xc3\xa9\n");
    label_texts_release(&texts);
    unit_folder_remove(folder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_digits_are_those_of_printf),
    cmocka_unit_test(test_integer_labels),
    cmocka_unit_test(test_probabilities_and_what_they_weigh),
    cmocka_unit_test(test_the_largest_answer_stays_in_its_bound),
    cmocka_unit_test(test_binary_layout),
    cmocka_unit_test(test_binary_layout_of_a_list),
    cmocka_unit_test(test_a_list_is_json),
    cmocka_unit_test(test_text_labels_are_escaped),
};

UNIT_MAIN(tests)
