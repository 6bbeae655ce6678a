#!/usr/bin/env python3
# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Tests intel_isa.py on listings made up for it: what finds no fault must have looked."""

import unittest

import intel_isa

DATA_PORT = r"dp data 1 MsgDesc: \(DC A64 untyped surface read,"
SAMPLER = r"sampler MsgDesc: ld "


class Checker(unittest.TestCase):
    # A load from an address of 64 bits, in registers 40 and 41, of which registers 30 and 31 have what is known before.
    RIGHT = """
mov(4)   g20<1>UD    tm0<4,4,1>UD                     { align1 WE_all 1N };
and(8)   g21<1>UD    g20<0,1,0>UD   g7.2<0,1,0>UD     { align1 1Q @1 };
or(8)    g22<1>UD    g30<8,4,2>UD   g21<8,8,1>UD      { align1 1Q @1 };
mov(8)   g40<2>UD    g22<4,4,1>UD                     { align1 1Q @1 };
mov(8)   g40.1<2>UD  g30.1<8,4,2>UD                   { align1 1Q };
send(8)  g50UD       g40UD          nullUD   0x1  0x0
                     dp data 1 MsgDesc: (DC A64 untyped surface read, Surface = 253) mlen 2 ex_mlen 0 rlen 1 { align1 1Q @1 $3 };
cmp.nz.f0.0(8) null<1>D  g50<8,8,1>D  0D              { align1 1Q $3.dst };
send(8)  nullUD      g42UD          g50UD    0x2  0x0
                     dp data 1 MsgDesc: (DC untyped surface write, Surface = 254) mlen 1 ex_mlen 1 rlen 0 { align1 1Q $4 };
(+f0.0) break(8) JIP:  LABEL2  UIP:  LABEL2           { align1 1Q };
   END B1 ->B3 ->B2
   START B2 <-B1 (32 cycles)
mov(4)   g23<1>UD    tm0<4,4,1>UD                     { align1 WE_all 1N };
add(8)   g24<1>D     g23<0,1,0>D    -g20<0,1,0>D      { align1 1Q @1 };
"""

    def found(self, text, load=DATA_PORT):
        return " ".join(intel_isa.faults(intel_isa.listing(text.splitlines()), load))

    def changed(self, before, after):
        self.assertEqual(self.RIGHT.count(before), 1, before)
        return self.RIGHT.replace(before, after)

    def moved(self, begin, behind):
        """The listing with the instruction that begins so behind another one."""
        lines = self.RIGHT.splitlines(keepends=True)
        line = next(each for each in lines if each.startswith(begin))
        lines.remove(line)
        at = next(i for i, each in enumerate(lines) if each.startswith(behind))
        return "".join(lines[: at + 1] + [line] + lines[at + 1 :])

    def test_right_code_passes(self):
        self.assertEqual(self.found(self.RIGHT), "")
        # Before Gen12 the listing has no waiting in it.
        self.assertEqual(self.found(self.RIGHT.replace(" $3.dst", "").replace(" $3", "")), "")
        for waiting in ("sync nop(1) null<0,1,0>UB { align1 WE_all 1N $3.dst };", "sync allwr(1) null<0,1,0>UB { align1 WE_all 1N };"):
            self.assertEqual(self.found(self.changed("1Q $3.dst }", "1Q }").replace("cmp.nz", waiting + "\ncmp.nz")), "")
        # Nothing is timed: the value is made of the clock itself.
        timed = self.RIGHT[self.RIGHT.index("send(8)  g50UD") : self.RIGHT.index("cmp.nz")]
        self.assertEqual(self.found(self.RIGHT.replace(timed, "mov(8) g50<1>UD g40<8,4,2>UD { align1 1Q };\n"), None), "")

    def test_address_has_to_depend_on_the_clock(self):
        words = "does not depend on the first clock"
        # The lower half of the address is written again, or was made of another register or of another word of tm0.
        written_again = "mov(8) g40<2>UD g30<8,4,2>UD { align1 1Q };\nsend(8)  g50UD"
        self.assertIn(words, self.found(self.changed("send(8)  g50UD", written_again)))
        self.assertIn(words, self.found(self.changed("g30<8,4,2>UD   g21", "g30<8,4,2>UD   g19")))
        self.assertIn(words, self.found(self.changed("g20<0,1,0>UD   g7", "g20.1<0,1,0>UD g7")))
        self.assertIn(words, self.found(self.changed("mov(8)   g40<2>UD ", "mov(8)   g60<2>UD ")))
        # The clock is read before the load, and used behind it.
        self.assertIn(words, self.found(self.moved("mov(8)   g40<2>UD ", "(+f0.0)")))
        # Only the upper half depends on it.
        upper = self.changed("mov(8)   g40<2>UD    g22", "mov(8)   g40<2>UD    g30").replace("g30.1<8,4,2>UD", "g22<8,8,1>UD ")
        self.assertIn(words, self.found(upper))
        # A flag may carry it as well.
        chosen = "cmp.nz.f1.0(8) null<1>D g21<8,8,1>D 0D { align1 1Q };\n(+f1.0) sel(8) g22<1>UD g30<8,4,2>UD 0x4UD "
        by_flag = self.changed("or(8)    g22<1>UD    g30<8,4,2>UD   g21<8,8,1>UD ", chosen)
        self.assertEqual(self.found(by_flag), "")
        self.assertIn(words, self.found(by_flag.replace("(+f1.0)", "(+f1.1)")))

    def test_register_by_its_address(self):
        begin = """
shl(1)   a0<1>UD     g9<0,1,0>UD    0x2UD             { align1 WE_all 1N };
add(1)   a0<1>UD     a0<0,1,0>UD    0x00000400UD      { align1 WE_all 1N A@1 };
mov(1)   g45<1>UD    g[a0 %d]<0,1,0>UD                { align1 WE_all 1N A@1 };
send(8)  g50UD       g45UD """
        of_register = lambda number: self.changed("\nsend(8)  g50UD       g40UD ", begin % (32 * number - 0x400))
        self.assertEqual(self.found(of_register(40)), "")
        self.assertIn("does not depend on the first clock", self.found(of_register(42)))

    def test_second_clock_has_to_wait(self):
        words = "second clock before the value"
        self.assertIn(words, self.found(self.moved("mov(4)   g23", "                     dp data 1 MsgDesc: (DC A64")))
        self.assertIn(words, self.found(self.changed("1Q $3.dst }", "1Q }")))
        self.assertIn(words, self.found(self.changed("1Q $3.dst }", "1Q $3.src }")))
        self.assertIn(words, self.found(self.changed("1Q $3.dst }", "1Q $5.dst }")))
        unused = self.changed("g50<8,8,1>D", "g51<8,8,1>D").replace("g42UD          g50UD", "g42UD          g51UD")
        self.assertIn(words, self.found(unused))

    def test_only_the_load_is_timed(self):
        load = self.RIGHT[self.RIGHT.index("send(8)  g50UD") : self.RIGHT.index("cmp.nz")]
        self.assertIn("instead of one", self.found(self.RIGHT.replace(load, "")))
        self.assertIn("instead of one", self.found(self.RIGHT.replace(load, load + load)))
        self.assertIn("instead of one", self.found(self.RIGHT, SAMPLER))
        self.assertIn("nothing is timed", self.found(self.RIGHT, None))
        # A load whose length is not in the listing.
        indirect = "send(8) g60UD g61UD nullUD a0.2<0>UD 0x0\n sampler MsgDesc: indirect { align1 1Q };\ncmp.nz"
        self.assertIn("instead of one", self.found(self.changed("cmp.nz", indirect)))
        self.assertIn("1 times", self.found(self.changed("g23<1>UD    tm0<4,4,1>UD", "g23<1>UD    g9<4,4,1>UD")))
        self.assertIn("entered between", self.found(self.changed("cmp.nz", "\nLABEL7:\ncmp.nz")))

    def test_unreadable_code_is_not_passed(self):
        with self.assertRaises(ValueError):
            self.found(self.changed("or(8) ", "or[8] "))

    def test_shaders_are_told_apart(self):
        head = "Native code for unnamed compute shader\nSIMD8 shader: 9 instructions.\n"
        shader = head + self.RIGHT + "   END B2\n"
        text = "what it was made of {\n}\n" + shader + "\nwhat it was made of {\n}\n" + shader
        code = list(intel_isa.shaders(text))
        self.assertEqual([list(intel_isa.faults(each, DATA_PORT)) for each in code], [[], []])


if __name__ == "__main__":
    unittest.main()
