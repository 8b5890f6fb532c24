"""Compiles LLVM IR by llvmlite: a request as JSON in each line that it reads, an answer in each it writes."""

import json
import sys

import llvmlite.binding as llvm

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def machine(arch):
    if arch:
        target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
        return target.create_target_machine(cpu=arch, opt=3, reloc="pic")
    # Code for this computer runs once, so it need not be fast.
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=0, reloc="pic", codemodel="small"
    )


def compiled(request):
    module = llvm.parse_assembly(request["text"])
    module.verify()
    chosen = machine(request["arch"])
    if request.get("level"):
        options = llvm.create_pipeline_tuning_options(speed_level=request["level"])
        llvm.create_pass_builder(chosen, options).getModulePassManager().run(
            module, llvm.create_pass_builder(chosen, options)
        )
    if request["arch"]:
        return {"assembly": chosen.emit_assembly(module)}
    return {"object": chosen.emit_object(module).hex()}


for line in sys.stdin:
    try:
        answer = compiled(json.loads(line))
    except RuntimeError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
