/* SPDX-License-Identifier: MIT */
/* The live page's files, as page/embed made them of sampler/page/ when this was built. */
#ifndef SAMPLER_API_PAGE_FILES_H
#define SAMPLER_API_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *bytes;
    size_t length;
};

extern const struct page_file page_html;
extern const struct page_file page_css;
extern const struct page_file page_js;

#endif
