# The repository's part of room host: its sources, and the generated code of its schema (protobuf is
# seen here and nowhere else in the room).
find_package(Protobuf REQUIRED)
set(STOKER_REPOSITORY_SOURCES
  repository/config_complete.cc
  repository/config_json.cc
  repository/config_support.cc
  repository/config_text.cc
  repository/config_values.cc
  repository/folder_files.cc
  repository/folder_source.cc)

set(proto ${CMAKE_CURRENT_LIST_DIR}/model_config.proto)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/model_config.pb.cc ${generated}/model_config.pb.h
  COMMAND protobuf::protoc --cpp_out=${generated} -I${CMAKE_CURRENT_LIST_DIR} ${proto}
  DEPENDS ${proto}
  COMMENT "Generating model_config.pb")
add_library(stoker_model_config_proto OBJECT ${generated}/model_config.pb.cc)
target_include_directories(stoker_model_config_proto SYSTEM PUBLIC ${generated})
target_link_libraries(stoker_model_config_proto PUBLIC protobuf::libprotobuf)
target_compile_options(stoker_model_config_proto PRIVATE -w)
# Link stoker_model_config_proto (LIBS of the room) wherever STOKER_REPOSITORY_SOURCES are compiled.

# Protobuf's headers give map fields two more members under ThreadSanitizer, which the library of the
# system does not have.
if(STOKER_SANITIZE MATCHES thread)
  target_compile_options(stoker_model_config_proto PRIVATE -U__SANITIZE_THREAD__)
  set_source_files_properties(${STOKER_REPOSITORY_SOURCES} PROPERTIES COMPILE_OPTIONS -U__SANITIZE_THREAD__)
endif()
