/* SPDX-License-Identifier: MIT */
#include "loader/store/store_row.h"

enum error store_row_check(const struct store_row *row, int64_t id, const struct store_info *info,
                           const struct label_dictionary *labels, const char *opened,
                           double *ret_label)
{
    *ret_label = 0;
    if (row->status == ROW_BAD)
        return OK;
    if ((row->id >= 0 && row->id != id) || row->length > info->longest ||
        (!row->is_u8 && info->element == ELEMENT_U8) ||
        !label_value(labels, row->label.data, row->label.length, ret_label))
        return error_set(ERROR_INPUT, "the row is not what it was when %s was opened", opened);
    return OK;
}
