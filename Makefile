# SPDX-License-Identifier: BSD-2-Clause
# quench: `make help` says what there is. SAN=1 builds the user-space code with ASan and UBSan.

CC        := gcc
CLANG     := clang
BPFTOOL   := bpftool
V         ?=
Q         := $(if $(V),,@)
BUILD     := build$(if $(SAN),/san)
comma     := ,
SANFLAGS  := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all)
CFLAGS    := -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Iagent -I$(BUILD) $(SANFLAGS)
BPFFLAGS  := -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -Iinclude -Ibpf \
             -I/usr/include/$(shell uname -m)-linux-gnu
FUZZFLAGS := -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Iagent -Itests \
             -fsanitize=fuzzer$(comma)address$(comma)undefined -fno-sanitize-recover=all
LDLIBS    := -lbpf -lmnl -lyaml -lmicrohttpd -ljansson -ldeflate -lpcap -lelf -lz -lpthread -lm

AGENT_SRC := $(wildcard agent/*.c agent/*/*.c)
AGENT_OBJ := $(AGENT_SRC:%.c=$(BUILD)/%.o)
LIB_OBJ   := $(filter-out $(BUILD)/agent/cli/main.o,$(AGENT_OBJ))
BPF_SRC   := bpf/maps.bpf.c $(filter-out bpf/maps.bpf.c,$(wildcard bpf/*.bpf.c)) # definitions first
BPF_OBJ   := $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o)
SKELETON  := $(BUILD)/quench.skel.h
UNIT      := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
PROG      := $(patsubst tests/prog/%.c,$(BUILD)/prog/%,$(wildcard tests/prog/test_*.c))
PROG_SKEL := $(patsubst tests/prog/%.bpf.c,$(BUILD)/prog/%.skel.h,$(wildcard tests/prog/*.bpf.c))
BENCH     := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(filter-out %.bpf.c,$(wildcard tests/bench/*.c)))
BENCH_SKEL := $(patsubst tests/bench/%.bpf.c,$(BUILD)/bench/%.skel.h,$(wildcard tests/bench/*.bpf.c))
FUZZ      := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
VM_TOOLS  := $(patsubst tests/vm/%.c,$(BUILD)/vm/%,$(wildcard tests/vm/*.c))
SCRIPTS   := tests/check_tree.py tests/oracle/test_oracle.py tests/oracle/test_fluid.py tests/oracle/test_analyze.py \
             tests/fuzz/test_fuzz.py tests/lab/rcpeer_test.sh $(wildcard tests/lab/test_*.py)
LAB_TOOLS := $(patsubst tests/lab/%.c,$(BUILD)/lab/%,$(wildcard tests/lab/*.c))

all: $(BUILD)/quench $(LAB_TOOLS)    ## build the agent and the lab's tools

$(BUILD)/quench: $(AGENT_OBJ)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libquench.a: $(LIB_OBJ)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/agent/%.o: agent/%.c | $(SKELETON)
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -c -o $@ $<

$(SKELETON): $(BPF_OBJ)
	$(Q)$(BPFTOOL) gen object $(BUILD)/quench.bpf.o $^
	$(Q)$(BPFTOOL) gen skeleton $(BUILD)/quench.bpf.o name quench_bpf > $@.tmp && mv $@.tmp $@

$(BUILD)/unit/%: tests/unit/%.c $(BUILD)/libquench.a
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CC) $(CFLAGS) -Itests -MMD -MP -o $@ $< $(BUILD)/libquench.a -lcmocka $(LDLIBS)

# A kernel's answers are the test's own.
$(BUILD)/unit/test_rdma: LDLIBS += -Wl,--wrap=recvmsg -Wl,--wrap=sendto

$(BUILD)/prog/%.bpf.o: tests/prog/%.bpf.c
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/prog/%.skel.h: $(BUILD)/prog/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@.tmp && mv $@.tmp $@

# Those that call functions of ours.
$(BUILD)/prog/depth_probe.skel.h: $(addprefix $(BUILD)/,bpf/maps.bpf.o bpf/depth.bpf.o prog/depth_probe.bpf.o)
$(BUILD)/prog/mark.skel.h: $(addprefix $(BUILD)/,bpf/frame.bpf.o prog/mark.bpf.o)
$(BUILD)/prog/verdict.skel.h: $(addprefix $(BUILD)/,bpf/maps.bpf.o bpf/frame.bpf.o bpf/far.bpf.o prog/verdict.bpf.o)
$(addprefix $(BUILD)/prog/,depth_probe.skel.h mark.skel.h verdict.skel.h):
	$(Q)$(BPFTOOL) gen object $(@:.skel.h=.o) $^
	$(Q)$(BPFTOOL) gen skeleton $(@:.skel.h=.o) name $(patsubst %.skel.h,%_bpf,$(@F)) > $@.tmp && mv $@.tmp $@

$(BUILD)/prog/%: tests/prog/%.c $(BUILD)/libquench.a $(PROG_SKEL) | $(LAB_TOOLS)
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CC) $(CFLAGS) -Itests -DBUILD_DIR='"$(BUILD)"' -MMD -MP -o $@ $< $(BUILD)/libquench.a -lcmocka $(LDLIBS)

$(BUILD)/lab/%: tests/lab/%.c
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CC) $(CFLAGS) -MMD -MP -o $@ $< -lmnl -ljansson -ldeflate -lm

$(BUILD)/bench/%.bpf.o: tests/bench/%.bpf.c
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/bench/%.skel.h: $(BUILD)/bench/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@.tmp && mv $@.tmp $@

$(BUILD)/bench/%: tests/bench/%.c $(BUILD)/libquench.a $(BENCH_SKEL)
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CC) $(CFLAGS) -Itests -MMD -MP -o $@ $< $(BUILD)/libquench.a -lcmocka $(LDLIBS)

# What each target reads with, built again with the fuzzer's eyes.
$(BUILD)/fuzz/fuzz_wire: tests/fuzz/wire_copied.c
$(BUILD)/fuzz/fuzz_policy: $(wildcard agent/policy/*.c agent/control/*.c) agent/qerr.c
$(BUILD)/fuzz/fuzz_netlink: $(wildcard agent/netlink/*.c) agent/control/local.c agent/qerr.c
$(BUILD)/fuzz/fuzz_capture: $(wildcard agent/analyze/*.c agent/capture/*.c) agent/control/pairs.c agent/qerr.c
$(BUILD)/fuzz/fuzz_policy: FUZZ_LIBS := -lyaml -lm
$(BUILD)/fuzz/fuzz_capture: FUZZ_LIBS := -lpcap -lz -ldeflate
$(BUILD)/fuzz/fuzz_netlink: FUZZ_LIBS := -lmnl -Wl,--wrap=recvmsg -Wl,--wrap=sendto

$(BUILD)/fuzz/%: tests/fuzz/%.c $(wildcard include/quench/*.h agent/*.h agent/*/*.h tests/fuzz/*.h tests/vectors/*.h)
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CLANG) $(FUZZFLAGS) -o $@ $(filter %.c,$^) $(FUZZ_LIBS)

unit: $(UNIT)    ## the unit tests
	@for t in $^; do $$t || exit 1; done

prog: $(PROG)    ## the BPF programs, run on frames; needs root
	@for t in $^; do $$t || exit 1; done

check: deps    ## every test, the user-space ones with sanitizers too; needs root
	@$(MAKE) --no-print-directory all $(UNIT) $(PROG) $(FUZZ) $(BUILD)/prog/depthprobe
	@$(MAKE) --no-print-directory SAN=1 all san-unit
	@tests/run.py $(UNIT) $(UNIT:build/%=build/san/%) $(PROG) $(SCRIPTS)

san-unit: $(UNIT)

FUZZ_S ?= 600
fuzz: $(FUZZ)    ## the fuzzers, FUZZ_S=600 seconds each; what they find is kept in build/fuzz
	@tests/run.py "tests/fuzz/test_fuzz.py --seconds $(FUZZ_S) --keep"

# SENDERS=16, IPV=6, MTU=4200, GATEWAYS=2, SECONDS=20; BRIDGED=1, NOTIFY=1, NOISE=1, KEEP=1
VALUES  := SENDERS IPV MTU GATEWAYS SECONDS
FLAGS   := BRIDGED NOTIFY NOISE KEEP
lower    = $(shell echo $(1) | tr A-Z a-z)
VARIANT  = $(foreach v,$(VALUES),$(if $($v),--$(call lower,$v) $($v))) \
           $(foreach v,$(FLAGS),$(if $(filter-out 0,$($v)),--$(call lower,$v)))

demo: deps    ## four senders into one port, without and with quench; SENDERS=16 IPV=6 MTU=4200 GATEWAYS=2 BRIDGED=1 NOTIFY=1 NOISE=1 SECONDS=9 KEEP=1
	@$(MAKE) --no-print-directory all
	@tests/lab/demo.py $(VARIANT)

demo-all: deps    ## the demo and all its variants in one table, build/demo-all.md
	@$(MAKE) --no-print-directory all
	@tests/lab/demo_all.py

lab-pfc: deps    ## priority flow control at length: build/pfc.json; needs root
	@$(MAKE) --no-print-directory all
	@tests/lab/test_pfc.py --long

bench: deps    ## quench against what one would run instead: build/bench.json, build/bench.md; needs root
	@$(MAKE) --no-print-directory all $(BENCH)
	@tests/bench/bench.py $(if $(ONLY),--only $(ONLY))

bench-quick: deps    ## the same in less than a minute, with room in the budgets
	@$(MAKE) --no-print-directory all $(BENCH)
	@tests/bench/bench.py --quick

vm: deps $(BUILD)/deps-vm    ## quench on stock kernels and between soft-RoCE guests, under QEMU; needs root
	@$(MAKE) --no-print-directory all $(VM_TOOLS) $(UNIT) $(PROG)
	@tests/vm/vm.py

vm-all: deps $(BUILD)/deps-vm    ## the same with every test and kind of guest, and the whole loop on a machine that has nothing else to do
	@$(MAKE) --no-print-directory all $(VM_TOOLS) $(UNIT) $(PROG)
	@tests/vm/vm.py --all

$(BUILD)/vm/%: tests/vm/%.c $(BUILD)/libquench.a
	@mkdir -p $(@D); echo '  $@'
	$(Q)$(CC) $(CFLAGS) -Itests -MMD -MP -o $@ $< $(BUILD)/libquench.a $(LDLIBS)

deps: | $(BUILD)/deps

# Done once: a package that goes missing later shows itself.
$(BUILD)/deps: deploy/packages
$(BUILD)/deps-vm: deploy/packages-vm
$(BUILD)/deps $(BUILD)/deps-vm:
	@mkdir -p $(@D)
	@missing=$$(for p in $$(grep -v '^#' $<); do \
	  dpkg-query -Wf '$${db:Status-Abbrev}' $$p 2>/dev/null | grep -q ^ii || echo $$p; done); \
	if [ -n "$$missing" ]; then echo "installing" $$missing; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi
	@touch $@

help:    ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 20

clean:    ## remove what was built
	rm -rf build

.PHONY: all unit prog check san-unit fuzz demo demo-all lab-pfc bench bench-quick vm vm-all deps help clean
.SECONDARY:
-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
