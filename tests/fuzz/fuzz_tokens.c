/* SPDX-License-Identifier: MIT */
/* The first byte chooses: a file of tokens, or an Authorization header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/http/bearer_tokens.h"
#include "sampler/api/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void use_file(const char *text, size_t length)
{
    struct bearer_tokens *tokens = NULL;
    if (bearer_tokens_parse(&sampler_tokens, text, length, "input", &tokens)) {
        check(strlen(error_message()) > 0);
        return;
    }
    check(bearer_tokens_count(tokens) >= 1 && bearer_tokens_count(tokens) <= TOKENS_LIMIT);
    check(bearer_tokens_find(tokens, "Bearer x") == NULL || bearer_tokens_count(tokens) > 0);
    bearer_tokens_free(tokens);
}

/* Only one text is the token "alpha". */
static void use_header(const char *header)
{
    static struct bearer_tokens *tokens;
    static const char file[] =
        "{\"tokens\":[{\"name\":\"a\",\"sha256\":"
        "\"8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8\","
        "\"scopes\":[\"draw\"],\"streams\":[\"s\"]}]}";
    if (!tokens)
        check(!bearer_tokens_parse(&sampler_tokens, file, sizeof(file) - 1, "file", &tokens));
    const struct bearer_token *token = bearer_tokens_find(tokens, header);
    if (!token)
        return;
    check(strstr(header, "alpha") != NULL);
    check(bearer_token_may(token, SCOPE_DRAW, "s") && !bearer_token_may(token, SCOPE_DRAW, "t"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length == 0)
        return 0;
    char *text = malloc(length); /* without the first byte, with a NUL */
    if (!text)
        return 0;
    memcpy(text, data + 1, length - 1);
    text[length - 1] = '\0';
    if (data[0] % 2 == 0)
        use_file(text, length - 1);
    else
        use_header(text);
    free(text);
    return 0;
}
