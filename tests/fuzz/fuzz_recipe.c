/* SPDX-License-Identifier: MIT */
/* What a model or a table says of its features, as text: an error with a message, or a recipe whose
 * own text says the same, and whose categories are found. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "loader/column/feature_recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(const struct feature_recipe *recipe)
{
    struct feature_recipe *again = NULL;
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    size_t features = 0;
    assert(!feature_recipe_print(recipe, &text));
    assert(!feature_recipe_parse(text.data, "its own text", &again));
    assert(feature_recipe_is_same(recipe, again));
    assert(again->request.unseen_is_bad == recipe->request.unseen_is_bad);
    for (size_t i = 0; i < recipe->count; i++) {
        const struct recipe_column *column = &recipe->columns[i];
        assert(column->first == features);
        features += column->is_category ? column->count : 1;
        for (size_t k = 0; k < column->count; k++)
            assert(recipe_column_find(column, column->categories[k],
                                      strlen(column->categories[k])) == k);
    }
    assert(features == recipe->features);
    feature_recipe_free(again);
    buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct feature_recipe *recipe = NULL;
    char *text = malloc(length + 1); /* the sanitizer sees its end */
    if (!text)
        return 0;
    if (length > 0)
        memcpy(text, data, length);
    text[length] = '\0';
    if (!feature_recipe_parse(text, "the recipe", &recipe))
        check(recipe);
    else
        assert(strlen(error_message()) > 10);
    feature_recipe_free(recipe);
    free(text);
    return 0;
}
