/* SPDX-License-Identifier: MIT */
/*
 * The graph of an ONNX model while it is built: a chain of nodes, each of which takes what the one
 * before it gave, and constants. Names of operations, attributes, inputs and outputs are literals;
 * the constants' values are borrowed until the graph is freed. More than its limits is a mistake of
 * the caller.
 */
#ifndef TRAINER_ONNX_ONNX_GRAPH_H
#define TRAINER_ONNX_ONNX_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/safetensors.h"

enum onnx_element { ONNX_FLOAT = 1, ONNX_INT64 = 7 };

struct onnx_graph;

/* Of one input, float [rows, columns]. */
enum error onnx_graph_new(const char *name, const char *input, size_t columns,
                          struct onnx_graph **ret_graph) MUST_CHECK;
void onnx_graph_free(struct onnx_graph *graph);

/* A constant float [rows, columns], or [columns] where rows is 0. Its name, the graph's own. */
const char *onnx_graph_tensor(struct onnx_graph *graph, const char *name, const float *values,
                              size_t rows, size_t columns);
/* Appends a node; `a` and `b` are constants that it takes behind the latest value, or NULL. */
void onnx_graph_node(struct onnx_graph *graph, const char *operation, const char *a, const char *b);
/* Of the last node. */
void onnx_graph_attribute(struct onnx_graph *graph, const char *name, int64_t value);
/* What the last node gave is an output: [rows, columns], or [rows] where columns is 0. */
void onnx_graph_output(struct onnx_graph *graph, const char *name, enum onnx_element element,
                       size_t columns);

#define ONNX_OPERATORS 13 /* the version of ONNX's set of operators */

/* As a file, written aside and renamed. ERROR_INPUT: larger than the 2 GiB that it may have. */
enum error onnx_graph_write(const struct onnx_graph *graph, int64_t version,
                            const struct safetensors_pair metadata[], size_t count,
                            const char *path) MUST_CHECK;

#endif
