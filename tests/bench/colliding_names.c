/* SPDX-License-Identifier: MIT */
/* colliding_names COUNT: as many workers' names whose XXH3 has the same last 15 bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int main(int argument_count, char **arguments)
{
    long left = argument_count > 1 ? atol(arguments[1]) : 0;
    char name[32];
    for (unsigned long number = 0; left > 0; number++) {
        snprintf(name, sizeof(name), "n%lu", number);
        if (XXH3_64bits(name, strlen(name)) & 32767)
            continue;
        puts(name);
        left--;
    }
    return 0;
}
