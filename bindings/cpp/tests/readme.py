"""Writes the C++ blocks of a README as programs: readme.py README FOLDER.

A block with a main function is one as it stands. Any other is put into one, after a model and a context.
"""

import pathlib
import re
import sys

PROGRAM = """#include <cmath>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <thread>
#include "ember.hpp"
int main() {{
    auto model = ember::Model::load("model.gguf");
    ember::Context context(model);
    {{
{block}
    }}
}}
"""

readme, folder = map(pathlib.Path, sys.argv[1:])
blocks = re.findall(r"^```cpp\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
if not blocks:
    sys.exit(f"{readme} has no C++ block")
for i, block in enumerate(blocks):
    program = block if "int main(" in block else PROGRAM.format(block=block)
    (folder / f"readme_{i}.cpp").write_text(program, encoding="utf-8")
