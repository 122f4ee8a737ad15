/* SPDX-License-Identifier: MIT */
/*
 * Builds the graph of an ONNX model: a chain of nodes, each of which reads the output of the one
 * before it, and constants. Names of operations, attributes, inputs and outputs are literals; the
 * constants' values are borrowed until the graph is freed. Exceeding a limit is the caller's
 * mistake.
 */
#ifndef TRAINER_ONNX_ONNX_GRAPH_H
#define TRAINER_ONNX_ONNX_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/safetensors.h"

enum onnx_element { ONNX_FLOAT = 1, ONNX_INT64 = 7 };

struct onnx_graph;

/* A graph with one input, float [rows, columns]. */
enum error onnx_graph_new(const char *name, const char *input, size_t columns,
                          struct onnx_graph **ret_graph) MUST_CHECK;
void onnx_graph_free(struct onnx_graph *graph);

/* Adds a constant float [rows, columns], or [columns] if rows is 0. Returns its name, owned by the
 * graph. */
const char *onnx_graph_tensor(struct onnx_graph *graph, const char *name, const float *values,
                              size_t rows, size_t columns);
/* Appends a node; `a` and `b` are constants that follow the latest value as inputs, or NULL. */
void onnx_graph_node(struct onnx_graph *graph, const char *operation, const char *a, const char *b);
/* Of the last node. */
void onnx_graph_attribute(struct onnx_graph *graph, const char *name, int64_t value);
/* Makes the last node's result an output: [rows, columns], or [rows] if columns is 0. */
void onnx_graph_output(struct onnx_graph *graph, const char *name, enum onnx_element element,
                       size_t columns);

#define ONNX_OPERATORS 13 /* version of the ONNX operator set */

/* Writes a file aside and renames it. ERROR_INPUT: larger than the limit of 2 GiB. */
enum error onnx_graph_write(const struct onnx_graph *graph, int64_t version,
                            const struct safetensors_pair metadata[], size_t count,
                            const char *path) MUST_CHECK;

#endif
