#include "sampler/batch/real_cache.h"

#include <string.h>

char *real_cache_write(struct real_cache *texts, char *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    size_t slot = (size_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 58);
    if (texts->slots[slot].length == 0 || texts->slots[slot].bits != bits) {
        texts->slots[slot].bits = bits;
        texts->slots[slot].length = (uint8_t)strlen(text_of_real(value, texts->slots[slot].text));
    }
    memcpy(out, texts->slots[slot].text, texts->slots[slot].length);
    return out + texts->slots[slot].length;
}
