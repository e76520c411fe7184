#include "tests/pserver/random_messages.h"

#include <google/protobuf/descriptor.h>

#include <limits>

namespace oarlock::pserver {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

}  // namespace

uint64_t RandomMessages::Number(const std::string& field) {
  const auto known = numbers_.find(field);
  if (known != numbers_.end() && !OneIn(6)) return One(known->second);
  // Near a power of two, where limits are, or any.
  switch (Below(4)) {
    case 0:
      return Below(10);
    case 1:
      return (uint64_t{1} << Below(64)) - Below(2);
    case 2:
      return (uint64_t{1} << Below(64)) + Below(2);
    default:
      return random_() >> Below(64);
  }
}

float RandomMessages::Real() {
  static const std::vector<float> kValues = {
      0,
      -0.f,
      1,
      -1,
      .5f,
      .9f,
      1e-3f,
      1e4f,
      std::numeric_limits<float>::min(),
      std::numeric_limits<float>::denorm_min(),
      std::numeric_limits<float>::max(),
      std::numeric_limits<float>::lowest(),
      std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::quiet_NaN(),
  };
  return One(kValues);
}

std::string RandomMessages::Text(const FieldDescriptor* field) {
  const auto known = texts_.find(field->name());
  if (known != texts_.end() && !OneIn(6)) return One(known->second);
  static const std::vector<size_t> kSizes = {0,   1,   2,   3,    4,    8,
                                             254, 255, 256, 1000, 4000, 4096};
  // Text must be UTF-8, or nobody would take it.
  std::string text(One(kSizes), OneIn(2) ? 'x' : '/');
  if (field->type() == FieldDescriptor::TYPE_STRING) {
    if (!text.empty() && OneIn(3)) text[Below(text.size())] = '\n';
    if (OneIn(8)) text = "../" + text;
  } else {
    for (char& byte : text) byte = static_cast<char>(random_());
  }
  return text;
}

int RandomMessages::RandomSize() {
  return OneIn(20) ? static_cast<int>(Below(1200)) : static_cast<int>(Below(5));
}

void RandomMessages::Set(Message* message, const FieldDescriptor* field,
                         int depth) {
  const Reflection& in = *message->GetReflection();
  if (field->is_repeated()) {
    in.ClearField(message, field);
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    for (int left = nested ? static_cast<int>(Below(4)) : RandomSize();
         left > 0; --left) {
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_UINT32:
          in.AddUInt32(message, field,
                       static_cast<uint32_t>(Number(field->name())));
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          in.AddUInt64(message, field, Number(field->name()));
          break;
        case FieldDescriptor::CPPTYPE_FLOAT:
          in.AddFloat(message, field, Real());
          break;
        case FieldDescriptor::CPPTYPE_STRING:
          in.AddString(message, field, Text(field));
          break;
        case FieldDescriptor::CPPTYPE_MESSAGE: {
          Message* const added = in.AddMessage(message, field);
          if (depth > 0) Fill(added, depth - 1);
          break;
        }
        default:
          return;
      }
    }
    return;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return in.SetInt32(message, field,
                         static_cast<int32_t>(Number(field->name())));
    case FieldDescriptor::CPPTYPE_INT64:
      return in.SetInt64(message, field,
                         static_cast<int64_t>(Number(field->name())));
    case FieldDescriptor::CPPTYPE_UINT32:
      return in.SetUInt32(message, field,
                          static_cast<uint32_t>(Number(field->name())));
    case FieldDescriptor::CPPTYPE_UINT64:
      return in.SetUInt64(message, field, Number(field->name()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return in.SetDouble(message, field, Real());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return in.SetFloat(message, field, Real());
    case FieldDescriptor::CPPTYPE_BOOL:
      return in.SetBool(message, field, OneIn(2));
    case FieldDescriptor::CPPTYPE_ENUM:
      return in.SetEnumValue(message, field, static_cast<int>(Below(6)));
    case FieldDescriptor::CPPTYPE_STRING:
      return in.SetString(message, field, Text(field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth > 0) Fill(in.MutableMessage(message, field), depth - 1);
  }
}

void RandomMessages::Fill(Message* message, int depth) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    if (numbers_.contains(type.field(i)->name()) ? !OneIn(10) : OneIn(2)) {
      Set(message, type.field(i), depth);
    }
  }
}

void RandomMessages::Change(Message* message) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  if (type.field_count() == 0) return;
  const FieldDescriptor* const field =
      type.field(static_cast<int>(Below(type.field_count())));
  const Reflection& in = *message->GetReflection();
  const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (nested && !field->is_repeated() && in.HasField(*message, field)) {
    return Change(in.MutableMessage(message, field));
  }
  if (nested && field->is_repeated() && in.FieldSize(*message, field) > 0) {
    return Change(in.MutableRepeatedMessage(
        message, field,
        static_cast<int>(Below(in.FieldSize(*message, field)))));
  }
  Set(message, field, kMaxDepth);
}

}  // namespace oarlock::pserver
