// SPDX-License-Identifier: MIT
// The module that parquet_door.c loads: Arrow's C++ library behind parquet_module.h. Compiled where
// configure finds the library, and never linked into a program. One thread a file: Arrow's own
// threads are not used, and its memory comes from malloc.
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "loader/parquet/parquet_module.h"
}

static_assert(sizeof(arrow_schema) == sizeof(ArrowSchema));
static_assert(sizeof(arrow_stream) == sizeof(ArrowArrayStream));

namespace
{

// Of one column chunk at once: a row group of a thousand columns stays below 64 MB.
constexpr int64_t kBufferBytes = 64 << 10;

class Source : public arrow::io::RandomAccessFile
{
  public:
    explicit Source(const parquet_source &source) : source_(source)
    {
        set_mode(arrow::io::FileMode::READ);
    }
    arrow::Result<int64_t> GetSize() override
    {
        return static_cast<int64_t>(source_.size_bytes);
    }
    arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void *out) override
    {
        const int64_t size = static_cast<int64_t>(source_.size_bytes);
        if (position < 0 || bytes < 0)
            return arrow::Status::Invalid("a negative place in the file");
        bytes = std::min(bytes, std::max<int64_t>(size - position, 0));
        if (bytes > 0 && source_.read(source_.context, out, static_cast<size_t>(bytes),
                                      static_cast<uint64_t>(position)) != 0)
            return arrow::Status::IOError("the file cannot be read");
        return bytes;
    }
    arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override
    {
        // A damaged footer may ask for more than any machine has.
        if (bytes > static_cast<int64_t>(source_.size_bytes))
            return arrow::Status::Invalid("a part of ", bytes, " bytes in a file of ",
                                          source_.size_bytes);
        ARROW_ASSIGN_OR_RAISE(auto buffer,
                              arrow::AllocateResizableBuffer(bytes, arrow::system_memory_pool()));
        ARROW_ASSIGN_OR_RAISE(int64_t got, ReadAt(position, bytes, buffer->mutable_data()));
        ARROW_RETURN_NOT_OK(buffer->Resize(got));
        return std::shared_ptr<arrow::Buffer>(std::move(buffer));
    }
    arrow::Result<int64_t> Read(int64_t bytes, void *out) override
    {
        ARROW_ASSIGN_OR_RAISE(int64_t got, ReadAt(position_, bytes, out));
        position_ += got;
        return got;
    }
    arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override
    {
        ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, bytes));
        position_ += buffer->size();
        return buffer;
    }
    arrow::Status Seek(int64_t position) override
    {
        position_ = position;
        return arrow::Status::OK();
    }
    arrow::Result<int64_t> Tell() const override
    {
        return position_;
    }
    arrow::Status Close() override
    {
        closed_ = true;
        return arrow::Status::OK();
    }
    bool closed() const override
    {
        return closed_;
    }

  private:
    parquet_source source_;
    int64_t position_ = 0;
    bool closed_ = false;
};

// Batches that hold what their structure says: readers need not doubt offsets or lengths.
class CheckedBatches : public arrow::RecordBatchReader
{
  public:
    explicit CheckedBatches(std::unique_ptr<arrow::RecordBatchReader> batches)
        : batches_(std::move(batches))
    {
    }
    std::shared_ptr<arrow::Schema> schema() const override
    {
        return batches_->schema();
    }
    arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch> *batch) override
    {
        try {
            ARROW_RETURN_NOT_OK(batches_->ReadNext(batch));
            return *batch ? (*batch)->ValidateFull() : arrow::Status::OK();
        } catch (const std::bad_alloc &) {
            return arrow::Status::OutOfMemory("out of memory");
        } catch (const std::exception &caught) {
            return arrow::Status::IOError(caught.what());
        }
    }

  private:
    std::unique_ptr<arrow::RecordBatchReader> batches_;
};

void add_leaves(const parquet::arrow::SchemaField &field, std::vector<int> *leaves)
{
    if (field.column_index >= 0)
        leaves->push_back(field.column_index);
    for (const parquet::arrow::SchemaField &child : field.children)
        add_leaves(child, leaves);
}

} // namespace

struct parquet_handle {
    std::unique_ptr<parquet::arrow::FileReader> reader;
    std::vector<parquet_group> groups;
};

namespace
{

// What the values of lists and of bytes take, however well their pages encode them; 0 where the
// footer does not tell.
int64_t value_bytes(const parquet::RowGroupMetaData &group)
{
    constexpr int64_t kMost = int64_t{1} << 36; // a damaged footer may say anything
    int64_t bytes = 0;
    for (int i = 0; i < group.num_columns(); i++) {
        const parquet::ColumnDescriptor *column = group.schema()->Column(i);
        const auto chunk = group.ColumnChunk(i);
        const auto sizes = chunk->size_statistics();
        if (column->max_repetition_level() > 0)
            bytes += std::clamp(chunk->num_values(), int64_t{0}, kMost) *
                     parquet::GetTypeByteSize(column->physical_type());
        if (sizes)
            bytes +=
                std::clamp(sizes->unencoded_byte_array_data_bytes.value_or(0), int64_t{0}, kMost);
    }
    return bytes;
}

arrow::Status open_file(const parquet_source &source, std::unique_ptr<parquet_handle> *ret_handle)
{
    arrow::MemoryPool *pool = arrow::system_memory_pool();
    parquet::ReaderProperties properties(pool);
    properties.enable_buffered_stream();
    properties.set_buffer_size(kBufferBytes);
    properties.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties arrow_properties;
    arrow_properties.set_use_threads(false);
    arrow_properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(std::make_shared<Source>(source), properties));
    auto handle = std::make_unique<parquet_handle>();
    ARROW_RETURN_NOT_OK(
        builder.memory_pool(pool)->properties(arrow_properties)->Build(&handle->reader));
    const auto metadata = handle->reader->parquet_reader()->metadata();
    for (int i = 0; i < metadata->num_row_groups(); i++) {
        const auto group = metadata->RowGroup(i);
        handle->groups.push_back(
            {group->num_rows(), std::max(group->total_byte_size(), value_bytes(*group))});
    }
    *ret_handle = std::move(handle);
    return arrow::Status::OK();
}

arrow::Status export_schema(parquet_handle *handle, arrow_schema *ret_schema)
{
    std::shared_ptr<arrow::Schema> schema;
    ARROW_RETURN_NOT_OK(handle->reader->GetSchema(&schema));
    return arrow::ExportSchema(*schema, reinterpret_cast<ArrowSchema *>(ret_schema));
}

arrow::Status export_rows(parquet_handle *handle, int first_group, int group_count,
                          const int *columns, size_t column_count, int64_t batch_rows,
                          arrow_stream *ret_stream)
{
    std::vector<int> groups(static_cast<size_t>(group_count));
    std::iota(groups.begin(), groups.end(), first_group);
    std::vector<int> leaves;
    const auto &fields = handle->reader->manifest().schema_fields;
    for (size_t i = 0; i < column_count; i++)
        add_leaves(fields.at(static_cast<size_t>(columns[i])), &leaves);
    handle->reader->set_batch_size(batch_rows);
    ARROW_ASSIGN_OR_RAISE(auto batches, handle->reader->GetRecordBatchReader(groups, leaves));
    return arrow::ExportRecordBatchReader(std::make_shared<CheckedBatches>(std::move(batches)),
                                          reinterpret_cast<ArrowArrayStream *>(ret_stream));
}

int explain(const char *text, int code, char message[PARQUET_MESSAGE_BYTES])
{
    std::snprintf(message, PARQUET_MESSAGE_BYTES, "%s", text);
    return code;
}

// 0, or an errno; whatever `work` throws ends here.
template <typename Work> int guard(char message[PARQUET_MESSAGE_BYTES], Work work)
{
    try {
        const arrow::Status status = work();
        if (status.ok())
            return 0;
        return explain(status.message().c_str(), status.IsOutOfMemory() ? ENOMEM : EINVAL, message);
    } catch (const std::bad_alloc &) {
        return explain("out of memory", ENOMEM, message);
    } catch (const std::exception &caught) {
        return explain(caught.what(), EINVAL, message);
    }
}

int module_open(const parquet_source *source, parquet_handle **ret_handle,
                char message[PARQUET_MESSAGE_BYTES])
{
    std::unique_ptr<parquet_handle> handle;
    const int code = guard(message, [&] { return open_file(*source, &handle); });
    if (code == 0)
        *ret_handle = handle.release();
    return code;
}

void module_close(parquet_handle *handle)
{
    delete handle;
}

int module_schema(parquet_handle *handle, arrow_schema *ret_schema,
                  char message[PARQUET_MESSAGE_BYTES])
{
    return guard(message, [&] { return export_schema(handle, ret_schema); });
}

const parquet_group *module_groups(const parquet_handle *handle, int *ret_count)
{
    *ret_count = static_cast<int>(handle->groups.size());
    return handle->groups.data();
}

// As statistics say it, of one column of one row group.
bool are_bytes(const parquet::Statistics &statistics)
{
    const auto within = [](const auto *typed) {
        // Of an unsigned type the largest may be negative here.
        return typed->HasMinMax() && typed->min() >= 0 && typed->max() >= 0 && typed->max() <= 255;
    };
    if (!statistics.HasNullCount() || statistics.null_count() != 0)
        return false;
    if (const auto *narrow = dynamic_cast<const parquet::Int32Statistics *>(&statistics))
        return within(narrow);
    if (const auto *wide = dynamic_cast<const parquet::Int64Statistics *>(&statistics))
        return within(wide);
    return false;
}

bool is_bytes(parquet_handle *handle, int column)
{
    const auto &field = handle->reader->manifest().schema_fields.at(static_cast<size_t>(column));
    const auto metadata = handle->reader->parquet_reader()->metadata();
    if (field.column_index < 0 || !arrow::is_integer(field.field->type()->id()))
        return false;
    for (int i = 0; i < metadata->num_row_groups(); i++) {
        const auto statistics =
            metadata->RowGroup(i)->ColumnChunk(field.column_index)->statistics();
        if (!statistics || !are_bytes(*statistics))
            return false;
    }
    return true;
}

int module_is_bytes(parquet_handle *handle, int column)
{
    bool bytes = false;
    char message[PARQUET_MESSAGE_BYTES];
    guard(message, [&] {
        bytes = is_bytes(handle, column);
        return arrow::Status::OK();
    });
    return bytes;
}

int module_read(parquet_handle *handle, int first_group, int group_count, const int *columns,
                size_t column_count, int64_t batch_rows, arrow_stream *ret_stream,
                char message[PARQUET_MESSAGE_BYTES])
{
    return guard(message, [&] {
        return export_rows(handle, first_group, group_count, columns, column_count, batch_rows,
                           ret_stream);
    });
}

} // namespace

extern "C" __attribute__((visibility("default"))) const parquet_module tombola_parquet_module_1;
const parquet_module tombola_parquet_module_1 = {
    .library = "Arrow " ARROW_VERSION_STRING,
    .open = module_open,
    .close = module_close,
    .schema = module_schema,
    .groups = module_groups,
    .is_bytes = module_is_bytes,
    .read = module_read,
};
