/* SPDX-License-Identifier: MIT */
/*
 * Parses 64 bytes of text at a time. Chunks are independent of where fields end, so none depends on
 * the previous one: a field's value is computed at its delimiter, from the three bytes before it,
 * which may be in the previous chunk.
 */
#include "loader/csv/csv_bytes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <pthread.h>
#include <string.h>

#define CHUNK_BYTES 64
/* A field needs at least two bytes; the AVX2 version writes up to 7 bytes too many. */
#define STORE_BYTES (CHUNK_BYTES / 2 + 8)
#define INLINE static inline __attribute__((always_inline))

/* Bit i stands for byte i of a chunk. */
struct chunk_bits {
    uint64_t digits, delimiters;
    uint64_t one, two, three, four; /* at least this many digits precede the byte */
};

struct run {
    const char *at;   /* the chunk */
    const char *rest; /* after the last parsed field */
    uint8_t *out;
    size_t left;     /* fields */
    uint64_t digits; /* of the previous chunk */
};

INLINE struct run run_begin(const char *at, size_t count, uint8_t *out)
{
    return (struct run){.at = at, .rest = at, .out = out, .left = count};
}

INLINE uint64_t digits_before(const struct run *run, uint64_t digits, unsigned places)
{
    return digits << places | run->digits >> (CHUNK_BYTES - places);
}

INLINE struct chunk_bits chunk_bits(const struct run *run, uint64_t digits, uint64_t delimiters)
{
    struct chunk_bits bits = {.digits = digits, .delimiters = delimiters};
    bits.one = digits_before(run, digits, 1);
    bits.two = bits.one & digits_before(run, digits, 2);
    bits.three = bits.two & digits_before(run, digits, 3);
    bits.four = bits.three & digits_before(run, digits, 4);
    return bits;
}

/* The delimiters before the first byte that is neither delimiter nor digit. */
INLINE uint64_t ends_of(const struct chunk_bits *bits)
{
    uint64_t others = ~(bits->digits | bits->delimiters);
    return bits->delimiters & ((others & -others) - 1);
}

/* Do fields of one to three digits end at `ends`, none of them at `over` (values over 255), and no
 * more than are left? */
INLINE bool run_accepts(const struct run *run, const struct chunk_bits *bits, uint64_t ends,
                        uint64_t over)
{
    return !(ends & (over | ~bits->one | bits->four)) &&
           (size_t)__builtin_popcountll(ends) <= run->left;
}

/* Where to put a chunk's values: up to STORE_BYTES are written. */
INLINE uint8_t *run_target(const struct run *run, uint8_t last[STORE_BYTES])
{
    return run->left < STORE_BYTES ? last : run->out;
}

/* The fields that end at `ends` are done, and are in `target`; false: something else follows
 * them. */
INLINE bool run_on(struct run *run, const struct chunk_bits *bits, uint64_t ends,
                   const uint8_t *target)
{
    size_t fields = (size_t)__builtin_popcountll(ends);
    if (target != run->out)
        memcpy(run->out, target, fields);
    if (ends)
        run->rest = run->at + CHUNK_BYTES - __builtin_clzll(ends);
    run->out += fields;
    run->left -= fields;
    run->at += CHUNK_BYTES;
    run->digits = bits->digits;
    return run->left > 0 && !~(bits->digits | bits->delimiters);
}

INLINE size_t run_end(const struct run *run, const char **at, size_t count)
{
    *at = run->rest;
    return count - run->left;
}

/* The value of a digit in the second and third place, and the limit of what follows the latter. */
#define TENS 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0, 0, 0, 0
#define HUNDREDS 0, 100, (char)200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define MOST_BEHIND 99, 99, 55, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0

/* ---- AVX-512 ------------------------------------------------------------ */

#define AVX512 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,popcnt,bmi,lzcnt")))

/* BMI and LZCNT are older than all of these. */
static bool supports_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("popcnt");
}

AVX512 static inline __m512i table_512(__m128i table)
{
    return _mm512_broadcast_i32x4(table);
}

/* Indexes of the bytes `places` earlier, in a chunk (0 to 63) and the previous one (64 to 127). */
#define EIGHT(first)                                                                       \
    (first), (first) + 1, (first) + 2, (first) + 3, (first) + 4, (first) + 5, (first) + 6, \
        (first) + 7
static const uint8_t sequence[] = {125,       126,       127,       EIGHT(0),  EIGHT(8), EIGHT(16),
                                   EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)};

AVX512 static inline __m512i places_before(int places)
{
    return _mm512_loadu_si512(sequence + 3 - places);
}

AVX512 static size_t decode_avx512(const char **at, size_t count, char delimiter, uint8_t *out)
{
    const __m512i tens = table_512(_mm_setr_epi8(TENS));
    const __m512i hundreds = table_512(_mm_setr_epi8(HUNDREDS));
    const __m512i most_behind = table_512(_mm_setr_epi8(MOST_BEHIND));
    const __m512i places[] = {places_before(1), places_before(2), places_before(3)};
    const __m512i delimiters = _mm512_set1_epi8(delimiter);
    __m512i before = _mm512_setzero_si512();
    struct run run = run_begin(*at, count, out);
    uint8_t last[STORE_BYTES];
    bool goes_on = true;
    while (goes_on) {
        __m512i text = _mm512_loadu_si512(run.at);
        __m512i digits = _mm512_sub_epi8(text, _mm512_set1_epi8('0'));
        struct chunk_bits bits =
            chunk_bits(&run, _mm512_cmple_epu8_mask(digits, _mm512_set1_epi8(9)),
                       _mm512_cmpeq_epi8_mask(text, delimiters));
        __m512i first = _mm512_maskz_permutex2var_epi8(bits.three, digits, places[2], before);
        __m512i second = _mm512_maskz_permutex2var_epi8(bits.two, digits, places[1], before);
        __m512i third = _mm512_permutex2var_epi8(digits, places[0], before);
        __m512i behind = _mm512_add_epi8(_mm512_shuffle_epi8(tens, second), third);
        uint64_t over = _mm512_cmpgt_epi8_mask(behind, _mm512_shuffle_epi8(most_behind, first));
        uint64_t ends = ends_of(&bits);
        if (!run_accepts(&run, &bits, ends, over))
            break;
        __m512i values = _mm512_add_epi8(_mm512_shuffle_epi8(hundreds, first), behind);
        __m512i kept = _mm512_maskz_compress_epi8(ends, values);
        uint8_t *target = run_target(&run, last);
        _mm256_storeu_si256((void *)target, _mm512_castsi512_si256(kept));
        before = digits;
        goes_on = run_on(&run, &bits, ends, target);
    }
    return run_end(&run, at, count);
}

static const struct csv_bytes_way way_avx512 = {"AVX-512", supports_avx512, decode_avx512};

/* ---- AVX2 --------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2,popcnt")))

/* For a mask of which of 8 bytes to keep: the shuffle that moves those to the front. */
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

static bool supports_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}

/* The bytes that many places earlier; `before`: those before the vector. */
#define BYTES_BEFORE(vector, before, places) \
    _mm256_alignr_epi8(vector, _mm256_permute2x128_si256(vector, before, 0x03), 16 - (places))

/* Half a chunk. */
struct half {
    __m256i digits; /* 0 where the byte is no digit */
    __m256i is_digit;
    __m256i values; /* of the fields that end here */
    uint32_t digit_bits, delimiter_bits, over_bits;
};

AVX2 static inline uint32_t bits_of(__m256i lanes)
{
    return (uint32_t)_mm256_movemask_epi8(lanes);
}

AVX2 static inline struct half read_half(const char *at, const struct half *before,
                                         __m256i delimiters)
{
    const __m256i tens = _mm256_setr_epi8(TENS, TENS);
    const __m256i hundreds = _mm256_setr_epi8(HUNDREDS, HUNDREDS);
    const __m256i most_behind = _mm256_setr_epi8(MOST_BEHIND, MOST_BEHIND);
    struct half half;
    __m256i text = _mm256_loadu_si256((const void *)at);
    __m256i digits = _mm256_sub_epi8(text, _mm256_set1_epi8('0'));
    half.is_digit = _mm256_cmpeq_epi8(_mm256_min_epu8(digits, _mm256_set1_epi8(9)), digits);
    half.digits = _mm256_and_si256(digits, half.is_digit);
    __m256i two = BYTES_BEFORE(half.is_digit, before->is_digit, 2);
    __m256i first = _mm256_and_si256(BYTES_BEFORE(half.digits, before->digits, 3), two);
    __m256i second = BYTES_BEFORE(half.digits, before->digits, 2);
    __m256i third = BYTES_BEFORE(half.digits, before->digits, 1);
    __m256i behind = _mm256_add_epi8(_mm256_shuffle_epi8(tens, second), third);
    half.values = _mm256_add_epi8(_mm256_shuffle_epi8(hundreds, first), behind);
    half.digit_bits = bits_of(half.is_digit);
    half.delimiter_bits = bits_of(_mm256_cmpeq_epi8(text, delimiters));
    half.over_bits = bits_of(_mm256_cmpgt_epi8(behind, _mm256_shuffle_epi8(most_behind, first)));
    return half;
}

static inline uint64_t both(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* Compacts the bytes of `values` selected by `kept`; writes up to 7 more. */
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

AVX2 static inline uint8_t *gather_half(__m256i values, uint32_t kept, uint8_t *out)
{
    out = gather(_mm256_castsi256_si128(values), kept, out);
    return gather(_mm256_extracti128_si256(values, 1), kept >> 16, out);
}

AVX2 static size_t decode_avx2(const char **at, size_t count, char delimiter, uint8_t *out)
{
    const __m256i delimiters = _mm256_set1_epi8(delimiter);
    struct half high = {.digits = _mm256_setzero_si256(), .is_digit = _mm256_setzero_si256()};
    struct run run = run_begin(*at, count, out);
    uint8_t last[STORE_BYTES];
    bool goes_on = true;
    pthread_once(&shuffles_once, make_shuffles);
    while (goes_on) {
        struct half low = read_half(run.at, &high, delimiters);
        high = read_half(run.at + CHUNK_BYTES / 2, &low, delimiters);
        struct chunk_bits bits = chunk_bits(&run, both(low.digit_bits, high.digit_bits),
                                            both(low.delimiter_bits, high.delimiter_bits));
        uint64_t ends = ends_of(&bits);
        if (!run_accepts(&run, &bits, ends, both(low.over_bits, high.over_bits)))
            break;
        uint8_t *target = run_target(&run, last);
        uint8_t *next = gather_half(low.values, (uint32_t)ends, target);
        gather_half(high.values, (uint32_t)(ends >> 32), next);
        goes_on = run_on(&run, &bits, ends, target);
    }
    return run_end(&run, at, count);
}

static const struct csv_bytes_way way_avx2 = {"AVX2", supports_avx2, decode_avx2};

const struct csv_bytes_way *const csv_bytes_ways[] = {&way_avx512, &way_avx2, NULL};

#else

const struct csv_bytes_way *const csv_bytes_ways[] = {NULL};

#endif
