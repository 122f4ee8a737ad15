/* The loads of 8 and 64 bytes may reach beyond the record, into the padding. */
#include "loader/csv_bytes.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

const char *csv_bytes_plain(const char *at, const char *end, size_t count, char delimiter,
                            uint8_t *out)
{
    const char zeros[8] = {'0', delimiter, '0', delimiter, '0', delimiter, '0', delimiter};
    uint64_t four_zeros;
    uint8_t *out_end = out + count;
    memcpy(&four_zeros, zeros, sizeof(zeros));
    while (out < out_end) {
        uint64_t next;
        memcpy(&next, at, sizeof(next));
        if (next == four_zeros && out_end - out >= 4 && end - at >= 8) {
            memset(out, 0, 4);
            out += 4;
            at += 8;
            continue;
        }
        unsigned value = (uint8_t)at[0] - (unsigned)'0';
        if (value > 9)
            return NULL;
        for (at++; *at != delimiter; at++) {
            unsigned digit = (uint8_t)*at - (unsigned)'0';
            value = value * 10 + digit;
            if (digit > 9 || value > 255)
                return NULL;
        }
        at++;
        *out++ = (uint8_t)value;
    }
    return at;
}

#if defined(__x86_64__)

#define CHUNK_BYTES 64
#define AVX2 __attribute__((target("avx2,popcnt")))

/* 64 bytes of text as two vectors. */
struct chunk {
    __m256i low, high;
};

/* For a byte that says which of 8 bytes stay: the shuffle that moves those to the front. */
static uint64_t shuffles[256];
static pthread_once_t shuffles_once = PTHREAD_ONCE_INIT;

static void make_shuffles(void)
{
    for (unsigned kept = 0; kept < 256; kept++) {
        int place = 0;
        for (unsigned i = 0; i < 8; i++) {
            if (kept >> i & 1)
                shuffles[kept] |= (uint64_t)i << 8 * place++;
        }
    }
}

AVX2 static inline uint64_t mask_of(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

/* The bytes before each byte of `vector`; `before` holds what lies in front of it. */
#define BYTES_BEFORE(vector, before, count) \
    _mm256_alignr_epi8(vector, _mm256_permute2x128_si256(vector, before, 0x03), 16 - (count))

/* At the last digit of each field of one to three digits: the field's value. `*wrong` gathers the
 * bytes where such a value is over 255. */
AVX2 static inline __m256i values_of(__m256i digits, __m256i digits_before, __m256i is_digit,
                                     __m256i is_digit_before, __m256i *wrong)
{
    const __m256i hundreds =
        _mm256_setr_epi8(0, 100, (char)200, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                         100, (char)200, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i tens = _mm256_setr_epi8(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0, 0, 0, 0,
                                          0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0, 0, 0, 0);
    __m256i inside = _mm256_and_si256(is_digit, BYTES_BEFORE(is_digit, is_digit_before, 1));
    __m256i first = _mm256_and_si256(BYTES_BEFORE(digits, digits_before, 2), inside);
    __m256i second = BYTES_BEFORE(digits, digits_before, 1);
    __m256i low = _mm256_add_epi8(digits, _mm256_shuffle_epi8(tens, second));
    __m256i high = _mm256_shuffle_epi8(hundreds, first);
    __m256i value = _mm256_add_epi8(low, high);
    *wrong = _mm256_or_si256(*wrong, _mm256_subs_epu8(first, _mm256_set1_epi8(2)));
    *wrong = _mm256_or_si256(*wrong, _mm256_xor_si256(value, _mm256_adds_epu8(low, high)));
    return value;
}

/* The bytes of `values` that `kept` names, one after the other; up to 7 more are written. */
AVX2 static inline uint8_t *gather(__m128i values, uint32_t kept, uint8_t *out)
{
    __m128i low = _mm_shuffle_epi8(values, _mm_loadl_epi64((const void *)&shuffles[kept & 255]));
    _mm_storel_epi64((void *)out, low);
    out += __builtin_popcount(kept & 255);
    __m128i high = _mm_shuffle_epi8(_mm_unpackhi_epi64(values, values),
                                    _mm_loadl_epi64((const void *)&shuffles[kept >> 8 & 255]));
    _mm_storel_epi64((void *)out, high);
    return out + __builtin_popcount(kept >> 8 & 255);
}

/* Whole fields from the front of the text at `*at`, 64 bytes at a time, each chunk from where a
 * field begins; stops in front of what it does not know. Returns how many of `count` it did. */
AVX2 static size_t decode_avx2(const char **at, const char *end, size_t count, char delimiter,
                               uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i nine = _mm256_set1_epi8(9);
    const __m256i delimiters = _mm256_set1_epi8(delimiter);
    const __m256i ascii_zero = _mm256_set1_epi8('0');
    const char *from = *at;
    size_t left = count;
    while (left > 0 && from < end) {
        struct chunk text = {_mm256_loadu_si256((const void *)from),
                             _mm256_loadu_si256((const void *)(from + 32))};
        struct chunk digit = {_mm256_sub_epi8(text.low, ascii_zero),
                              _mm256_sub_epi8(text.high, ascii_zero)};
        struct chunk is = {_mm256_cmpeq_epi8(_mm256_min_epu8(digit.low, nine), digit.low),
                           _mm256_cmpeq_epi8(_mm256_min_epu8(digit.high, nine), digit.high)};
        uint64_t ends = mask_of(_mm256_cmpeq_epi8(text.low, delimiters),
                                _mm256_cmpeq_epi8(text.high, delimiters));
        uint64_t digits = mask_of(is.low, is.high);
        if (end - from < CHUNK_BYTES)
            ends &= (UINT64_C(1) << (end - from)) - 1;
        if (ends == 0 || (size_t)__builtin_popcountll(ends) > left)
            break;
        unsigned length = 64 - (unsigned)__builtin_clzll(ends);
        uint64_t whole = UINT64_MAX >> (64 - length); /* up to the last delimiter */
        uint64_t empty = ends & (ends << 1 | 1);
        uint64_t long_ones = digits & digits << 1 & digits << 2 & digits << 3;
        if (((digits | ends) & whole) != whole || empty || (long_ones & whole))
            break;
        digit.low = _mm256_and_si256(digit.low, is.low);
        digit.high = _mm256_and_si256(digit.high, is.high);
        __m256i wrong[2] = {zero, zero};
        __m256i low = values_of(digit.low, zero, is.low, zero, &wrong[0]);
        __m256i high = values_of(digit.high, digit.low, is.high, is.low, &wrong[1]);
        uint64_t over =
            ~mask_of(_mm256_cmpeq_epi8(wrong[0], zero), _mm256_cmpeq_epi8(wrong[1], zero));
        if (over & whole)
            break;
        uint64_t kept = ends >> 1;
        uint8_t *next = gather(_mm256_castsi256_si128(low), (uint32_t)kept, out);
        next = gather(_mm256_extracti128_si256(low, 1), (uint32_t)(kept >> 16), next);
        next = gather(_mm256_castsi256_si128(high), (uint32_t)(kept >> 32), next);
        next = gather(_mm256_extracti128_si256(high, 1), (uint32_t)(kept >> 48), next);
        left -= (size_t)(next - out);
        out = next;
        from += length;
    }
    *at = from;
    return count - left;
}

const char *csv_bytes_decode(const char *at, const char *end, size_t count, char delimiter,
                             uint8_t *out)
{
    size_t done = 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) {
        pthread_once(&shuffles_once, make_shuffles);
        done = decode_avx2(&at, end, count, delimiter, out);
    }
    return csv_bytes_plain(at, end, count - done, delimiter, out + done);
}

#else

const char *csv_bytes_decode(const char *at, const char *end, size_t count, char delimiter,
                             uint8_t *out)
{
    return csv_bytes_plain(at, end, count, delimiter, out);
}

#endif
