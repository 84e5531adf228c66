"""The ctypes declarations are those of include/ember.h: generated from it, and what a C++ compiler makes of it."""

import ctypes
import importlib.util
import os
import re
import subprocess

import ember
import pytest
from ember import _abi
from ember._library import lib

PROBE = """
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include "ember.h"

template <class T> std::string kind() {
    if constexpr (std::is_void_v<T>)
        return "void";
    else if constexpr (std::is_function_v<std::remove_pointer_t<T>>)
        return "function";
    else if constexpr (std::is_pointer_v<T>) {
        using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
        if constexpr (std::is_class_v<Pointee>)
            return "pointer struct";
        else if constexpr (std::is_pointer_v<Pointee>)
            return "pointer pointer";
        else
            return "pointer " + kind<Pointee>();
    } else if constexpr (std::is_enum_v<T>)
        return kind<std::underlying_type_t<T>>();
    else if constexpr (std::is_same_v<T, bool>)
        return "bool";
    else if constexpr (std::is_same_v<T, char>)
        return "char";
    else if constexpr (std::is_floating_point_v<T>)
        return "float" + std::to_string(8 * sizeof(T));
    else
        return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T));
}

template <class R, class... A> std::string signature(R (*)(A...)) {
    std::string out = kind<R>();
    ((out += ", " + kind<A>()), ...);
    return out;
}

int main() {
#define FUNCTION(name) std::printf("function " #name " %s\\n", signature(name).c_str())
#define STRUCT(name) std::printf("struct " #name " %zu\\n", sizeof(name))
#define FIELD(name, field) \\
    std::printf("field " #name "." #field " %zu %s\\n", offsetof(name, field), kind<decltype(name::field)>().c_str())
#define CONSTANT(name) std::printf("constant " #name " %lld\\n", static_cast<long long>(name))
@BODY@
}
"""


def kinds(ctype):
    """The kinds of C type that a ctypes type may stand for, in the words of the probe."""
    if ctype is None:
        return {"void"}
    if ctype is ctypes.c_char_p:
        return {"pointer char"}
    if ctype is ctypes.c_void_p:
        return {"pointer struct", "pointer uint8", "pointer void"}
    if issubclass(ctype, ctypes._CFuncPtr):
        return {"function"}
    if issubclass(ctype, ctypes._Pointer):
        inner = ctype._type_
        if issubclass(inner, ctypes.Structure):
            return {"pointer struct"}
        if inner is ctypes.c_char:
            return {"pointer char", "pointer uint8"}
        if inner in (ctypes.c_void_p, ctypes.c_char_p):
            return {"pointer pointer"}
        return {f"pointer {one}" for one in kinds(inner)}
    if ctype is ctypes.c_bool:
        return {"bool"}
    bits = 8 * ctypes.sizeof(ctype)
    if ctype in (ctypes.c_float, ctypes.c_double):
        return {f"float{bits}"}
    return {f"int{bits}" if ctype(-1).value < 0 else f"uint{bits}"}


def structs():
    return {
        name: value
        for name, value in vars(_abi).items()
        if isinstance(value, type) and issubclass(value, ctypes.Structure)
    }


def enum_prefixes():
    return {
        "Status": "EMBER_E_",
        "KvType": "EMBER_KV_",
        "Backend": "EMBER_BACKEND_",
        "LogLevel": "EMBER_LOG_",
        "FinishReason": "EMBER_FINISH_",
        "EventKind": "EMBER_EVENT_",
        "Pooling": "EMBER_POOLING_",
        "Pack": "EMBER_PACK_",
    }


@pytest.fixture(scope="module")
def probed(root, tmp_path_factory):
    """What the compiler says, line by line: a word, a name, and the rest."""
    exported = subprocess.run(["nm", "-D", "--defined-only", lib._name], check=True, capture_output=True, text=True)
    functions = re.findall(r" T (ember_\w+)$", exported.stdout, re.MULTILINE)
    assert functions
    body = [f"FUNCTION({name});" for name in functions]
    for name, struct in structs().items():
        body += [f"STRUCT({name});", *(f"FIELD({name}, {field[0]});" for field in struct._fields_)]
    for name, prefix in enum_prefixes().items():
        for member in getattr(_abi, name):
            body.append(f"CONSTANT({'EMBER_OK' if member is ember.Status.OK else prefix + member.name});")
    body.append("CONSTANT(EMBER_TOKEN_NONE);")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.cpp").write_text(PROBE.replace("@BODY@", "\n".join(body)))
    command = [os.environ.get("CXX", "c++"), "-std=c++17", f"-I{root / 'include'}", "probe.cpp", "-o", "probe"]
    # Only types are asked for, but the address of a function must be found.
    library = os.path.realpath(lib._name)
    dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    (folder / re.search(r"SONAME.*\[(.*)\]", dynamic)[1]).symlink_to(library)
    subprocess.run([*command, library, f"-Wl,-rpath,{folder}"], cwd=folder, check=True)
    said = subprocess.run([folder / "probe"], check=True, capture_output=True, text=True).stdout
    return [line.split(" ", 2) for line in said.splitlines()]


def test_the_declarations_are_generated_from_the_header(root):
    script = root / "bindings/python/generate_abi.py"
    spec = importlib.util.spec_from_file_location("generate_abi", script)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    header = generator.Header((root / "include/ember.h").read_text(encoding="utf-8"))
    committed = (root / "bindings/python/src/ember/_abi.py").read_text(encoding="utf-8")
    assert committed == generator.source(header), "run bindings/python/generate_abi.py"


def test_every_function_has_the_signature_that_the_compiler_sees(probed):
    functions = {name: rest.split(", ") for what, name, rest in probed if what == "function"}
    assert functions.keys() == _abi.FUNCTIONS.keys()
    for name, signature in functions.items():
        result, arguments = _abi.FUNCTIONS[name]
        declared = [kinds(one) for one in (result, *arguments)]
        assert len(declared) == len(signature), name
        for seen, allowed in zip(signature, declared):
            assert seen in allowed, f"{name}: {seen} is declared as one of {allowed}"


def test_structs_lie_as_the_compiler_lays_them(probed):
    sizes = {name: int(rest) for what, name, rest in probed if what == "struct"}
    assert sizes == {name: ctypes.sizeof(struct) for name, struct in structs().items()}
    fields = {name: rest.split(" ", 1) for what, name, rest in probed if what == "field"}
    for name, struct in structs().items():
        for field, ctype in struct._fields_:
            offset, kind = fields[f"{name}.{field}"]
            assert getattr(struct, field).offset == int(offset), f"{name}.{field}"
            assert kind in kinds(ctype), f"{name}.{field}"


def test_constants_have_the_values_that_the_compiler_sees(probed):
    constants = {name: int(rest) for what, name, rest in probed if what == "constant"}
    assert constants.pop("EMBER_TOKEN_NONE") == _abi.EMBER_TOKEN_NONE
    assert constants.pop("EMBER_OK") == ember.Status.OK
    for name, prefix in enum_prefixes().items():
        for member in getattr(_abi, name):
            if member is not ember.Status.OK:
                assert constants.pop(prefix + member.name) == member.value
    assert not constants


def test_every_status_has_an_exception_and_a_name():
    from ember.errors import BY_STATUS

    assert set(BY_STATUS) == set(ember.Status) - {ember.Status.OK}
    for status in ember.Status:
        assert lib.ember_status_name(status).decode() in ("EMBER_OK", f"EMBER_E_{status.name}")
