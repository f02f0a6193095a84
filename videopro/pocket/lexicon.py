"""The text that the pocket tokenizer takes whole words from, beyond the words of the world itself.

Programs, plans, logs, prompts and error messages that a planner on the pocket model will have to read and
write: every word, name and mark in them becomes one token. Only the words matter; nothing here is a prompt or
is ever run. Settled with the tokenizer, before the long training.
"""

MODULES = """
get_informative_clips get_informative_subtitles get_subtitle_hints extract_frames trim_frames trim_around
trim_before trim_after detect_object track_object run_ocr crop crop_left crop_right crop_top crop_bottom
crop_left_top crop_right_top crop_left_bottom crop_right_bottom query_native query_mc query_yn query_frames
query_count make_result execute_command
"""

NAMES = """
video video_path question choices duration query top_k k total_duration word_number num_frames timestamp
intervals interval start end time frames frame clip clips clip_paths clip_path path box boxes box_threshold
text_threshold threshold text texts line lines subtitle subtitles hint hints context prompt answer answers
confidence conf raw_output metadata result results letter letters choice option options number total count
counts seen last first before after earlier later best score scores label labels left top right bottom width
height image images word words item items value values key keys index i j n x y a b c t s e region regions
small part parts found sign_frames place_frames evidence merged previous current next_start gap kept yes no
query_text lowered needle
"""

PYTHON = """
def return if else elif for in while not and or is None True False try except Exception as raise break
continue pass lambda import from with class len range min max sum sorted any all list dict tuple set str int
float bool enumerate zip map filter abs round isinstance append extend insert pop get items keys values
lower upper strip split join startswith endswith replace format sort reverse print math re collections
itertools statistics json floor ceil sqrt Counter defaultdict self __init__ yield next global nonlocal del
match case
"""

ERRORS = """
Error error Traceback NameError TypeError ValueError IndexError KeyError AttributeError ZeroDivisionError
SyntaxError RuntimeError TimeoutError MemoryError AssertionError StopIteration RecursionError LookupError
NotFoundError ArgumentError BudgetError ModuleError EmptyError log line message type call calls returned
raised failed failure unexpected keyword argument positional missing required takes given got but must be a
an of one the not defined object has no attribute attribute list index out range invalid syntax division by
zero subscriptable iterable callable unpack many enough values expected name unknown module window outside
inside empty nothing nothing_found clip frame frames subtitles matched matches seconds limit budget exceeded
reached time memory output long exit status ok killed stopped at column near did you mean arguments result
rounds
"""

PLANNING = """
planning code program native multi step mode reason reasoning plan plans bug fix fixed refine refined
refinement confident low high unsure video question needs need enough one glance whole short long scene
scenes show shows shown first then find finds found look looks ask asks read reads see sees answer answers
directly model frames clips subtitles sign signs narrator says said say line lines text around before after
between near inside crop cut zoom count each every which what where when who how many because so that this
these those it its use used using with without only also same other another than more most less few all some
any can cannot could would will may does do did is are was were has have had been be on in at of to for from
by into over under as if else and or not no yes the a an there here we I you they he she his her their our
your my me them us about again right wrong correct correctly better wider broader narrower word words place
places color shape move movement weather topic story thing things name person people begin beginning middle
final last next previous second minute minutes seconds hour interval time times top left bottom half quarter
box boxes object objects detect retrieve retrieved retrieval localize inspect extract summary summarize hint
hints context evidence confidence letter option options choice choices return returned call calls function
helper module modules api error log failed empty result results runtime query run runs running execution
execute fails instead try tries change changed keep kept make makes made take takes taken give gives given
get gets got go goes new old good part parts list number numbers true false none value
"""

PROMPTS = """
Reply with the letter of the right option only. Reply with Yes or No only. Reply in a few words. Reply in
one sentence. Describe what is shown. Locate the in the image. Reply with its box as JSON only. Pick the
color shape You will receive a multiple choice question about a video. Define a Python function in this
form. Judge briefly whether the question can be answered directly from the video. Write your plan. Then
write the program. Available functions. Example. Question Choices Answer Program Current Existing Log
Runtime Buggy Fix the bugs Improve the program Refine this visual program Its answer was Its confidence was
Output Subtitles Narration Transcript Text read from the frames Sign Signs found at narrator Which What
Where When How Who Why Is Are Was Does Do Did There There is here nothing visible anybody anything This That
place scene actor sees shows word written reads read says stands stand moving moves still screen picture
frame background seen left right upper lower corner none Yes No yes no maybe unknown system user assistant
bbox_2d label point json python
"""

MARKS = """
( ) [ ] { } < > , . : ; ! ? ' " ` = + - * / % _ # @ & | ~ ^ \\ $
== != <= >= += -= *= /= // ** -> () [] {} "" '' ``` </ /> :: ... [" "] (" ") ['"', ') ", ', (' ') [: :] [-
"""

CODE = """
def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "word", top_k=3, total_duration=duration)
    frames = []
    for clip in clips:
        frames.extend(extract_frames(clip))
    kept = [frame for frame in frames if detect_object(frame, "sign")]
    if not kept:
        kept = frames
    for start, end in intervals:
        part = trim_frames(video, start - 5, end + 5, num_frames=16)
        try:
            box = detect_object(part[0], "sign", box_threshold=0.5, text_threshold=0.25)[0]
            text = run_ocr(crop(part[0], box))
        except Exception as error:
            text = ""
        if text and query_yn(part, f"Is this the {text}?") == "Yes":
            count += 1
            while count < 3:
                break
    lines = get_informative_subtitles(video, "line", top_k=1)
    times = sorted(times, key=lambda item: item[1])
    answer, confidence = query_mc(frames, question, choices)
    return query_native(video, question, choices)
"""

TEXT = "\n".join((MODULES, NAMES, PYTHON, ERRORS, PLANNING, PROMPTS, MARKS, CODE))
