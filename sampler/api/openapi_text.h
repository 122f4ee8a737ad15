/* SPDX-License-Identifier: MIT */
/* sampler/api/openapi.json as Makefile.am made it a text when this was built; NUL-terminated. */
#ifndef SAMPLER_API_OPENAPI_TEXT_H
#define SAMPLER_API_OPENAPI_TEXT_H

extern const char openapi_text[];

#endif
