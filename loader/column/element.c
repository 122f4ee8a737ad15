/* SPDX-License-Identifier: MIT */
#include "loader/column/element.h"

#include <string.h>

#include "common/text.h"

const char *const element_names[ELEMENTS] = {
    [ELEMENT_U8] = "u8", [ELEMENT_F32] = "f32", [ELEMENT_I32] = "i32"};
const char *const element_things[ELEMENTS] = {
    [ELEMENT_U8] = "bytes", [ELEMENT_F32] = "32-bit floats", [ELEMENT_I32] = "32-bit integers"};

bool element_find(const char *name, enum element *ret_element)
{
    for (int i = 0; i < ELEMENTS; i++) {
        if (strcmp(name, element_names[i]) == 0) {
            *ret_element = (enum element)i;
            return true;
        }
    }
    return false;
}

enum error element_choice_read(struct element_choice *choice, struct uri *uri)
{
    const char *value = uri_query_get(&uri->query, "element");
    char shown[TEXT_QUOTE_BYTES];
    *choice = (struct element_choice){.told = value != NULL};
    if (!value || element_find(value, &choice->element))
        return OK;
    return error_set(ERROR_USAGE, "element is %s, must be u8, f32 or i32",
                     text_quote(shown, sizeof(shown), value, strlen(value)));
}

enum error element_choice_check_numbers(const struct element_choice *choice, const char *where)
{
    if (!choice->told || choice->element == ELEMENT_I32)
        return OK;
    return error_set(ERROR_USAGE,
                     "element=%s says what values of bytes hold, and %s has no single column of "
                     "them; of numbers element=i32 alone is possible",
                     element_names[choice->element], where);
}
