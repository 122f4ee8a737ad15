#include "sampler/real_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_shortest(char *out, double value)
{
    int length = 0;
    for (int digits = 15; digits <= 17; digits++) {
        length = snprintf(out, REAL_TEXT_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return length;
}

char *real_text_write(struct real_texts *texts, char *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    size_t slot = (size_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 58);
    if (texts->slots[slot].length == 0 || texts->slots[slot].bits != bits) {
        texts->slots[slot].bits = bits;
        texts->slots[slot].length = (uint8_t)print_shortest(texts->slots[slot].text, value);
    }
    memcpy(out, texts->slots[slot].text, texts->slots[slot].length);
    return out + texts->slots[slot].length;
}
